#!/usr/bin/env python3
"""Signs extensions with a key of one's own and lays them out as an extension repository, which DuckDB 2.0 installs from without the
setting allow_unsigned_extensions.

usage: sign_extension.py KEY FILE...                  signs the files in place
       sign_extension.py KEY FILE... --repository DIR  leaves signed copies in DIR/<DuckDB version>/<platform>/

KEY is a private RSA key of 2048 bits in PEM format ('openssl genrsa -out key.pem 2048' makes one); the last line that is printed is the
statement that makes the repository known to DuckDB. openssl's command line does the arithmetic.

The signature is the last 256 bytes of an extension: RSA (PKCS #1 v1.5) over the SHA-256 of the SHA-256 of each MiB of all that is before.
"""
import argparse
import gzip
import hashlib
import pathlib
import subprocess
import sys

SIGNATURE = 256
CHUNK = 1 << 20


class Failure(Exception):
    """What went wrong, in one line for the user."""


def digest(data):
    """What is signed of an extension without its signature."""
    chunks = b"".join(hashlib.sha256(data[at : at + CHUNK]).digest() for at in range(0, len(data), CHUNK))
    return hashlib.sha256(chunks).digest()


def openssl(*words, data=b""):
    try:
        done = subprocess.run(["openssl", *map(str, words)], input=data, capture_output=True)
    except FileNotFoundError:
        raise Failure("openssl is not installed") from None
    if done.returncode:
        raise Failure(f"openssl {words[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def fields(data):
    """The platform and the DuckDB version in the footer of an extension."""
    footer = data[-512:-SIGNATURE]
    texts = [footer[at : at + 32].rstrip(b"\0").decode(errors="replace") for at in range(0, 256, 32)]
    if len(data) < 534 or data[-534:-512] != b"\x00\x93\x04\x10duckdb_signature\x80\x04" or not texts[5].startswith("v"):
        raise Failure("it has no footer of a DuckDB extension")
    return texts[6], texts[5]


def signed(data, key):
    """The extension with its signature."""
    body = data[:-SIGNATURE]
    signature = openssl("pkeyutl", "-sign", "-inkey", key, "-pkeyopt", "digest:sha256", data=digest(body))
    if len(signature) != SIGNATURE:
        raise Failure(f"{key} is no RSA key of 2048 bits")
    return body + signature


def public_key(key):
    return openssl("pkey", "-in", key, "-pubout").decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("key", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    parser.add_argument("--repository", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    try:
        for path in arguments.files:
            data = path.read_bytes()
            try:
                platform, version = fields(data)
            except Failure as failure:
                raise Failure(f"{path}: {failure}") from None
            data = signed(data, arguments.key)
            if not arguments.repository:
                path.write_bytes(data)
                continue
            target = arguments.repository / version / platform / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            # By HTTP DuckDB asks for this one
            target.with_name(path.name + ".gz").write_bytes(gzip.compress(data, mtime=0))
        if arguments.repository:
            print(f"CREATE EXTENSION REPOSITORY vibe PREFIX '{arguments.repository.resolve()}' PUBLIC KEY '{public_key(arguments.key)}';")
    except (Failure, OSError) as failure:
        print(f"sign_extension.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
