"""Pairs of keys with which the pods of one job log in to each other."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

_BITS = 2048  # what every ssh accepts; the keys live as long as one job


def new_keys(comment: str) -> tuple[str, str]:
    """A private key in PEM, and the public one as ``authorized_keys`` has it.  It takes 0.1 s or more."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} {comment}\n"
