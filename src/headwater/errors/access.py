"""Errors that ask for other credentials."""

from headwater.errors.root import HeadwaterError


class AccessError(HeadwaterError):
    """Tell that the caller may not do this."""

    code = 48
    hint = "Ask an operator for the right to do it, or connect as somebody who has it."


class AuthenticationError(AccessError):
    """Tell that the credentials are missing or wrong."""

    code = 46
    hint = "Give the right user name and password."


class SecurityDisabledError(AccessError):
    """Tell that this listener takes no credentials."""

    code = 47
    hint = "Connect without a security protocol."


class SecurityTokenError(AccessError):
    """Tell that no token for the remote storage could be had."""

    code = 30
    hint = "Let an operator check the storage credentials of the cluster."
