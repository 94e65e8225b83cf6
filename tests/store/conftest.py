"""Backends of every kind for the tests of the store."""

from tests.store.servers import careless_server, credentials, s3_server

__all__ = ["careless_server", "credentials", "s3_server"]
