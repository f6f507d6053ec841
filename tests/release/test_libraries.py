"""The libraries for Testcontainers as a release publishes them: what Maven Central gets, and what `go get` finds."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.docker.image import PROJECT
from tests.release.test_contents import VERSION
from tests.tools.programs import need

URL = "https://github.com/Some-Owner/notleader"
POM = "{http://maven.apache.org/POM/4.0.0}"


def done(*words: str | Path, folder: Path, **env: str) -> str:
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def steps(job: str) -> list[str]:
    """The commands of a job of the release workflow."""
    workflow = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text())
    return [step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step]


class Central(ThreadingHTTPServer):
    """Takes uploads as <https://central.sonatype.org/publish/publish-portal-api/> says, and publishes nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.bundle = b""
        super().__init__(("127.0.0.1", 0), Portal)


class Portal(BaseHTTPRequestHandler):
    server: Central

    def do_POST(self) -> None:
        body = self._body()
        self.server.asked.append((self.path, self.headers["Authorization"]))
        uploaded = self.path.startswith("/api/v1/publisher/upload?")
        if uploaded:
            self.server.bundle = body[body.index(b"PK") :]  # zipfile looks for the end of the archive itself
        state = {"deploymentId": "d1", "deploymentName": "n", "deploymentState": "PUBLISHED", "purls": []}
        answer = b"d1" if uploaded else json.dumps(state).encode()
        self.send_response(201 if uploaded else 200)
        self.send_header("Content-Type", "text/plain" if uploaded else "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _body(self) -> bytes:
        if self.headers["Transfer-Encoding"] != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def log_message(self, *_: object) -> None:
        """Not on stderr."""


@pytest.fixture
def central() -> Iterator[Central]:
    with Central() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_maven_central_gets_a_signed_bundle_with_all_that_it_asks_for(central: Central, tmp_path: Path) -> None:
    """Everything that the workflow's `deploy` does, to another address."""
    shutil.copytree(PROJECT / "testcontainers/java", tmp_path / "java", ignore=shutil.ignore_patterns("target"))
    describe, _, deploy = steps("java")
    assert describe == "python3 ../../scripts/release.py pom pom.xml"
    done(sys.executable, PROJECT / "scripts/release.py", "pom", "pom.xml", folder=tmp_path / "java", NOTLEADER_URL=URL)

    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    gpg = [need("gpg"), "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
    gpg += ["--passphrase", "a phrase"]
    done(*gpg, "--quick-gen-key", "nobody <nobody@example.org>", "rsa3072", "sign", "1d", folder=tmp_path)
    key = done(*gpg, "--armor", "--export-secret-keys", folder=tmp_path)
    assert deploy.startswith("mvn ")
    # As setup-java writes it for the workflow.
    (tmp_path / "server.xml").write_text(
        "<settings><servers><server><id>central</id><username>n</username><password>p</password></server></servers>"
        "</settings>"
    )
    done(
        need("mvn"), *deploy.split()[1:], f"-DcentralBaseUrl=http://127.0.0.1:{central.server_port}", "-q",
        "-gs", tmp_path / "server.xml",
        folder=tmp_path / "java", MAVEN_GPG_KEY=key, MAVEN_GPG_PASSPHRASE="a phrase",
    )  # fmt: skip

    (uploaded, token), *_ = central.asked
    assert "publishingType=AUTOMATIC" in uploaded
    assert token is not None
    assert token.split()[1] == base64.b64encode(b"n:p").decode()
    folder = f"io/github/some-owner/notleader-testcontainers/{VERSION}"
    with zipfile.ZipFile(io.BytesIO(central.bundle)) as bundle:
        names = set(bundle.namelist())
        for end in (".pom", ".jar", "-sources.jar", "-javadoc.jar"):
            for more in ("", ".asc", ".md5", ".sha1"):
                assert f"{folder}/notleader-testcontainers-{VERSION}{end}{more}" in names
        pom = ElementTree.fromstring(bundle.read(f"{folder}/notleader-testcontainers-{VERSION}.pom"))
    for asked in ("name", "description", "url", "licenses", "developers/", "scm/"):
        assert pom.find(POM + asked.replace("/", f"/{POM}*")) is not None, asked
    assert pom.findtext(f"{POM}url") == URL


def test_go_finds_the_module_by_its_tag(tmp_path: Path) -> None:
    """With git in GitHub's place: a program gets the version that the workflow's commands have tagged, and builds."""
    tree, remote, program = (tmp_path / name for name in ("tree", "remote.git", "program"))
    done("git", "init", "--quiet", "--bare", remote, folder=tmp_path)
    done("git", "init", "--quiet", tree, folder=tmp_path)
    shutil.copytree(PROJECT / "testcontainers/go", tree / "testcontainers/go")
    shutil.copytree(PROJECT / "scripts", tree / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    done("git", "add", ".", folder=tree)
    done("git", "-c", "user.name=n", "-c", "user.email=n@example.org", "commit", "-qm", "all", folder=tree)
    before = done("git", "rev-parse", "HEAD", folder=tree)

    path, _, tag, _ = steps("go")
    assert "scripts/release.py go testcontainers/go" in path
    published = done(sys.executable, "scripts/release.py", "go", "testcontainers/go", folder=tree, NOTLEADER_URL=URL)
    assert published == "github.com/Some-Owner/notleader/testcontainers/go\n"
    done("sh", "-ec", tag, folder=tree, VERSION=VERSION, REMOTE=str(remote))
    assert done("git", "rev-parse", "HEAD~", folder=tree) == before
    assert done("git", "for-each-ref", "--format=%(refname)", folder=remote) == (
        f"refs/tags/testcontainers/go/v{VERSION}\n"
    ), "the tag, and no branch"

    program.mkdir()
    module = published.strip()
    (program / "main.go").write_text(
        f'package main\n\nimport notleader "{module}"\n\nfunc main() {{ _ = notleader.Error("X").Name("n") }}\n'
    )
    (tmp_path / "gitconfig").write_text(f'[url "file://{remote}"]\n\tinsteadOf = {URL}\n[safe]\n\tdirectory = *\n')
    # What others published comes from the proxy as ever; this one, and no sum of it, from the repository.
    env = {
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "GOPRIVATE": "github.com/Some-Owner",
        "GOFLAGS": "-mod=mod",
    }
    go = need("go")
    done(go, "mod", "init", "example.org/program", folder=program, **env)
    done(go, "get", f"{module}@v{VERSION}", folder=program, **env)
    done(go, "build", "./...", folder=program, **env)
    assert f"{module} v{VERSION}" in (program / "go.mod").read_text()


@pytest.mark.parametrize("url", ["", "https://example.org/a/b"])
def test_without_an_address_on_github_no_pom_is_made(tmp_path: Path, url: str) -> None:
    shutil.copy(PROJECT / "testcontainers/java/pom.xml", tmp_path)
    ran = subprocess.run(
        [sys.executable, str(PROJECT / "scripts/release.py"), "pom", "pom.xml"],
        cwd=tmp_path, env={**os.environ, "NOTLEADER_URL": url}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "is not https://github.com/OWNER/NAME" in ran.stderr
