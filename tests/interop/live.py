"""The client of Mooncake's Python package, led by lines on standard input.

Each line is a JSON list: the name of an operation and its arguments. Each answer is one line of
JSON. The bytes of an object follow from its key and a number, so that only these two travel; a read
answers with that number, or with None if there is no object, and fails on any other bytes.

Usage: live.py MASTER METADATA SEGMENT_BYTES
"""

import hashlib
import json
import sys

from mooncake.store import MooncakeDistributedStore

BUFFER_BYTES = 32 << 20

# Every object begins with what it was made from; none is smaller.
HEAD_BYTES = 200


def content(key, number, size):
    """What the object of a key holds."""
    head = json.dumps([key, number, size]).encode().ljust(HEAD_BYTES)
    return head + hashlib.shake_128(head).digest(size - len(head))


def number_of(key, data):
    """The number that these bytes were made from."""
    if not data:
        return None
    written_for, number, size = json.loads(bytes(data[:HEAD_BYTES]))
    assert written_for == key and bytes(data) == content(key, number, size), f"wrong bytes: {key}"
    return number


class Client:
    """One method for each operation."""

    def __init__(self, master, metadata, segment_bytes):
        self.store = MooncakeDistributedStore()
        args = ("127.0.0.1", metadata, segment_bytes, BUFFER_BYTES, "tcp", "", master)
        self.set_up = self.store.setup(*args)

    def put(self, key, number, size):
        return self.store.put(key, content(key, number, size))

    def get(self, key):
        return number_of(key, self.store.get(key))

    def put_batch(self, keys, number, size):
        return self.store.put_batch(keys, [content(key, number, size) for key in keys])

    def get_batch(self, keys):
        return [number_of(key, data) for key, data in zip(keys, self.store.get_batch(keys))]

    def upsert(self, key, number, size):
        return self.store.upsert(key, content(key, number, size))

    def upsert_batch(self, keys, number, size):
        return self.store.upsert_batch(keys, [content(key, number, size) for key in keys])

    def exist(self, keys):
        assert self.store.is_exist(keys[0]) == self.store.batch_is_exist(keys[:1])[0]
        return self.store.batch_is_exist(keys)

    def size(self, key):
        return self.store.get_size(key)

    def remove(self, key, force):
        return self.store.remove(key, force)

    def batch_remove(self, keys, force):
        return self.store.batch_remove(keys, force)

    def remove_by_regex(self, regex, force):
        return self.store.remove_by_regex(regex, force)

    def remove_all(self, force):
        return self.store.remove_all(force)


def main():
    master, metadata, segment_bytes = sys.argv[1:]

    def answer(value):
        # The library writes to standard output, too.
        print("answer", json.dumps(value), flush=True)

    client = Client(master, metadata, int(segment_bytes))
    answer(client.set_up)
    for line in sys.stdin:
        name, *args = json.loads(line)
        answer(getattr(client, name)(*args))
    client.store.close()


main()
