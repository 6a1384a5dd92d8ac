"""The service: recipients fetch what they were granted, with the clients they have.

    application     an ASGI application for a vault

    _service        who is asking, what is permitted, the copies and the access log
    _cache          copies that were made, in a bounded folder
    _signatures     signed addresses of files
    _downloads      plain HTTP
    _delta_sharing  the Delta Sharing protocol; _delta_types its types
    _replies        files with ranges, and errors in words
    _app            all of it as one application

Bytes leave only after the fingerprint passed, the ledger line is written, and the grant was
checked for this very request.
"""

from cornerwave.server._app import application

__all__ = ["application"]
