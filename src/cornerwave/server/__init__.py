"""The service: recipients fetch what they were granted, with the clients they have.

    application     an ASGI application for a vault
    settings        how uvicorn runs it
    first_link      where its owner sets the password of the console

    _service        who is asking, what is permitted, and the copies; signed addresses of files
    _cache          copies that were made, in a bounded folder; the access log
    _downloads      plain HTTP
    _administration the owner's work over REST
    _delta_sharing  the Delta Sharing protocol; _delta_types its types
    _replies        files with ranges, and errors in words
    _app            all of it as one application, with limits for each client, and /docs

The console, for the owner in a browser:

    _sign_in        password, one-time link, sessions
    _page           templates, errors as pages, who may see them
    _doors          signing in and out
    _console        datasets, grants, requests, the ledger
    _people         recipients, tokens, the access log
    _registering    a table from an allowed folder, column by column
    _explorer       what coalitions recover; which privacy to pick

Bytes leave only after the fingerprint passed, the ledger line is written, and the grant was
checked for this very request.
"""

from cornerwave.server._app import application, settings
from cornerwave.server._sign_in import first_link

__all__ = [
    "application",
    "first_link",
    "settings",
]
