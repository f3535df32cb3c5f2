"""Places of checkpoints as tests see them: what lies there, and how to do harm to it."""

import shutil


class FolderSpot:
    """A folder."""

    def __init__(self, path):
        self.path = path

    def names(self):
        return sorted(
            p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file()
        )

    def read(self, name):
        return (self.path / name).read_bytes()

    def write(self, name, data):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def unlink(self, name):
        (self.path / name).unlink()

    def remove(self):
        shutil.rmtree(self.path)

    def copy(self, name):
        return FolderSpot(shutil.copytree(self.path, self.path.with_name(name)))


class UrlSpot:
    """What is below a URL of a store of this process, see `s3.S3`."""

    def __init__(self, s3, prefix):
        self.s3 = s3
        self.prefix = prefix
        self.path = f"s3://bucket/{prefix}"

    def names(self):
        return sorted(key.removeprefix(f"{self.prefix}/") for key in self.s3.below(self.prefix))

    def read(self, name):
        return self.s3.objects[f"{self.prefix}/{name}"][0]

    def write(self, name, data):
        self.s3.set(f"{self.prefix}/{name}", bytes(data))

    def unlink(self, name):
        del self.s3.objects[f"{self.prefix}/{name}"]

    def remove(self):
        for name in self.names():
            self.unlink(name)

    def copy(self, name):
        copied = UrlSpot(self.s3, name)
        for part in self.names():
            copied.write(part, self.read(part))
        return copied
