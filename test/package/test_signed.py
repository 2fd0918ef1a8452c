"""An extension that was signed with a key of one's own, from a repository, into a database that takes no unsigned ones."""
import os
import pathlib
import subprocess
import sys

import duckdb
import pytest
import vibespatial

SIGN = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "sign_extension.py"

pytestmark = pytest.mark.skipif(os.environ["VIBESPATIAL_DUCKDB"].startswith("1."), reason="DuckDB 1.5 has no repositories with keys")


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.pem"
    subprocess.run(["openssl", "genrsa", "-out", path, "2048"], check=True, capture_output=True)
    return path


def public(key):
    return subprocess.run(["openssl", "pkey", "-in", key, "-pubout"], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path, key):
    folder = tmp_path / "repository"
    done = subprocess.run([sys.executable, SIGN, key, vibespatial.extension_path(), "--repository", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CREATE EXTENSION REPOSITORY vibe PREFIX ")
    return folder


def connection(tmp_path, folder, text):
    con = duckdb.connect(config={"extension_directory": str(tmp_path / "extensions"), "extension_repository_directory": str(tmp_path / "known")})
    con.execute("SET allow_extension_repositories = 'allowed'")
    con.execute(f"CREATE EXTENSION REPOSITORY vibe PREFIX '{folder}' PUBLIC KEY '{text}'")
    return con


def test_signed_installed_and_loaded(tmp_path, key, repository):
    con = connection(tmp_path, repository, public(key))
    con.execute("INSTALL vibespatial FROM vibe")
    # DuckDB trusts the key of a repository only where the repository is named
    with pytest.raises(duckdb.Error):
        con.execute("LOAD vibespatial")
    con.execute("LOAD vibespatial FROM vibe")
    assert con.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
    assert con.execute("SELECT ST_Area('POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))'::GEOMETRY)").fetchall() == [(4.0,)]
    assert vibespatial.load(con) is con
    # The plug-in stays in the package and is found there
    plugin = vibespatial.extension_path().parent.parent / "vibespatial" / "libvibespatial_cuda.so"
    if plugin.exists():
        assert con.execute("SELECT path FROM vibe_gpu_info() WHERE component = 'plug-in'").fetchall() == [(str(plugin),)]


def test_a_signature_of_another_key_is_refused(tmp_path, repository):
    other = tmp_path / "other.pem"
    subprocess.run(["openssl", "genrsa", "-out", other, "2048"], check=True, capture_output=True)
    con = connection(tmp_path, repository, public(other))
    with pytest.raises(duckdb.Error, match="signature|sign"):
        con.execute("INSTALL vibespatial FROM vibe")
        con.execute("LOAD vibespatial FROM vibe")


def test_a_changed_byte_is_refused(tmp_path, key, repository):
    (path,) = repository.rglob("*.duckdb_extension")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    path.with_name(path.name + ".gz").unlink()
    con = connection(tmp_path, repository, public(key))
    with pytest.raises(duckdb.Error, match="signature|sign"):
        con.execute("INSTALL vibespatial FROM vibe")
        con.execute("LOAD vibespatial FROM vibe")


def test_what_cannot_be_signed(tmp_path, key):
    nothing = tmp_path / "nothing.duckdb_extension"
    nothing.write_bytes(b"x" * 1000)
    done = subprocess.run([sys.executable, SIGN, key, nothing], capture_output=True, text=True)
    assert done.returncode == 1 and "no footer of a DuckDB extension" in done.stderr
    small = tmp_path / "small.pem"
    subprocess.run(["openssl", "genrsa", "-out", small, "1024"], check=True, capture_output=True)
    done = subprocess.run([sys.executable, SIGN, small, vibespatial.extension_path(), "--repository", tmp_path / "r"], capture_output=True, text=True)
    assert done.returncode == 1 and "no RSA key of 2048 bits" in done.stderr
