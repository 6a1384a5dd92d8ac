"""The service: recipients fetch what they were granted, with the clients they have.

    application     an ASGI application for a vault
    settings        how uvicorn runs it; ClientLimits: what a client may do
    first_link      where its owner sets the password of the console; SignIn: password and sessions

    _service        who is asking, what is permitted, and the copies; signed addresses of files;
                    the access log
    _cache          files that were made, in one bounded folder
    _downloads      plain HTTP
    _delta_sharing  the Delta Sharing protocol, and copies in its types
    _replies        files with ranges, and errors in words
    _limits         sizes and times that every client has to keep
    _app            all of it as one application, and /docs

The console, for the owner in a browser:

    _proxy          sign-in by a header, from proxies that are named
    _sign_in        password, one-time link, sessions
    _page           templates, errors as pages, who may see them, signing in and out
    _console        datasets, grants, requests, the ledger
    _people         recipients, tokens, the access log
    _registering    a table from an allowed folder, column by column
    _explorer       what coalitions recover; which privacy to pick

Everything that an owner does about access is a method of `cornerwave.access.Sharing`, which the
console and the command line call. The service has no other interface for owners: a token that
grants would be a second password, sent with every request and kept in files.

Bytes leave only after the fingerprint passed, the ledger line is written, and the grant was
checked for this very request.
"""

from cornerwave.server._app import application
from cornerwave.server._limits import ClientLimits, settings
from cornerwave.server._proxy import SignInHeader
from cornerwave.server._sign_in import SignIn, first_link

__all__ = [
    "ClientLimits",
    "SignIn",
    "SignInHeader",
    "application",
    "first_link",
    "settings",
]
