"""An object store for tests: what of the API of S3 a checkpoint needs, over HTTP on this machine.

Puts on a condition (``If-None-Match: *``, ``If-Match``) are answered as Amazon's are. It can be
told to lose answers, to fail, and to ignore conditions.
"""

from __future__ import annotations

import hashlib
import re
import threading
import urllib.parse
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape, unescape

KEY, SECRET = "AKIDOFTESTS", "a-secret-of-tests"
BUCKET = "bucket"


class S3:
    """A store with one bucket, in threads of this process.

    Attributes
    ----------
    objects : dict
        Key to bytes and time of writing.
    log : list
        Method, key and status of every request.
    lose : int
        The answer to the so-manieth put from now on is lost, after the put was done.
    fail : int
        So many requests to come are answered with 503.
    collide : int
        So many puts on a condition to come are refused with 409, as those that meet another one.
    ignore_conditions : bool
        Whether puts are done whatever their condition, as old stores do.
    """

    def __init__(self):
        self.objects = {}
        self.log = []
        self.lose = self.fail = self.collide = 0
        self.ignore_conditions = False
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_Handler,), {"s3": self})
        )
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self):
        """Variables by which clients find it."""
        return environment(self.address)

    def below(self, prefix):
        """Keys and bytes below a prefix."""
        with self.lock:
            return {k: data for k, (data, _) in self.objects.items() if k.startswith(f"{prefix}/")}

    def set(self, key, data):
        self.objects[key] = (data, datetime.now(UTC))

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def environment(address):
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    s3: S3

    def log_message(self, *args):
        pass

    def _parts(self):
        url = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        return bucket, key, dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))

    def _answer(self, status, body=b"", **headers):
        self.s3.log.append((self.command, self._parts()[1], status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status, code):
        self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def _handle(self, work):
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        bucket, key, query = self._parts()
        with self.s3.lock:
            if self.s3.fail:
                self.s3.fail -= 1
                return self._error(503, "SlowDown")
            if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
                return self._error(403, "AccessDenied")
            if bucket != BUCKET:
                return self._error(404, "NoSuchBucket")
            return work(key, query, body)

    def do_PUT(self):
        self._handle(self._put)

    def do_GET(self):
        self._handle(self._get)

    do_HEAD = do_GET  # noqa: N815  # as the server calls them

    def do_DELETE(self):
        self._handle(self._delete)

    def do_POST(self):
        self._handle(self._delete_some)

    def _put(self, key, query, body):
        there = self.s3.objects.get(key)
        wanted = self.headers.get("If-Match")
        if self.s3.collide and (wanted or self.headers.get("If-None-Match")):
            self.s3.collide -= 1
            return self._error(409, "ConditionalRequestConflict")
        if not self.s3.ignore_conditions:
            if self.headers.get("If-None-Match") == "*" and there is not None:
                return self._error(412, "PreconditionFailed")
            if wanted is not None and there is None:
                return self._error(404, "NoSuchKey")
            if wanted is not None and wanted != _tag(there[0]):
                return self._error(412, "PreconditionFailed")
        self.s3.set(key, body)
        self.s3.lose -= 1
        if not self.s3.lose:
            self.s3.log.append(("PUT", key, "lost"))
            self.close_connection = True
            return None
        return self._answer(200, ETag=_tag(body))

    def _get(self, key, query, body):
        if not key:
            return self._list(query)
        there = self.s3.objects.get(key)
        if there is None:
            return self._error(404, "NoSuchKey")
        data, when = there
        modified = when.strftime("%a, %d %b %Y %H:%M:%S GMT")
        about = {"ETag": _tag(data), "Last_Modified": modified}
        part = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if part is None:
            return self._answer(200, data, **about)
        first, last = part.groups()
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(len(data), int(last) + 1) if first and last else len(data)
        about["Content_Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        return self._answer(206, data[start:stop], **about)

    def _list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most, after = int(query.get("max-keys", 1000)), query.get("continuation-token", "")
        keys, folders = [], set()
        for key in sorted(k for k in self.s3.objects if k.startswith(prefix)):
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            elif key > after:
                keys.append(key)
        page = keys[:most]
        is_cut = len(keys) > most
        last = escape(page[-1]) if is_cut else ""
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.s3.objects[key][0])}</Size>"
            f"<LastModified>{self.s3.objects[key][1].strftime('%Y-%m-%dT%H:%M:%S.000Z')}"
            f"</LastModified><ETag>{escape(_tag(self.s3.objects[key][0]))}</ETag></Contents>"
            for key in page
        )
        below = "".join(
            f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>"
            for f in sorted(folders if not after else ())
        )
        self._answer(
            200,
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{most}</MaxKeys>"
            f"<IsTruncated>{str(is_cut).lower()}</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"
            f"{contents}{below}</ListBucketResult>".encode(),
            Content_Type="application/xml",
        )

    def _delete(self, key, query, body):
        self.s3.objects.pop(key, None)
        self._answer(204)

    def _delete_some(self, key, query, body):
        if "delete" not in query:
            return self._error(400, "InvalidRequest")
        named = re.findall(r"<Key>(.*?)</Key>", body.decode())
        for name in named:
            self.s3.objects.pop(unescape(name), None)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in named)
        return self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())


def _tag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'
