# SPDX-License-Identifier: MIT
"""pprof's message (proto/profile.proto of github.com/google/pprof), read strictly, for tests of what stook writes.

    profile = pprof.Profile(data)       packed or not
    profile.types                       ["inuse_objects", ...]; .units beside; .default; .period; .duration, or None
    profile.mappings                    {number: Mapping}
    profile.samples                     Sample: values {type: number}, labels {key: text or number}, stack of Locations
"""
import collections
import gzip

Mapping = collections.namedtuple("Mapping", "start limit offset file build_id")
Location = collections.namedtuple("Location", "number mapping address lines")
Line = collections.namedtuple("Line", "function file number")
Sample = collections.namedtuple("Sample", "values labels stack")


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        assert shift <= 70, "a number of more than ten bytes"
        if byte < 0x80:
            return value, at


def _message(data):
    """{field: its values}: numbers, and bytes of what has a length."""
    fields, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        assert key & 7 in (0, 2), f"a field of wire type {key & 7}"
        value, at = _varint(data, at)
        if key & 7 == 2:
            assert at + value <= len(data), "a field that ends behind its message"
            value, at = data[at:at + value], at + value
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _numbers(values):
    """Of a repeated field, packed or one by one; signed."""
    numbers = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(number)
    return [n - (1 << 64) if n >> 63 else n for n in numbers]


class Profile:
    def __init__(self, data):
        whole = _message(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        self.strings = [text.decode() for text in whole[6]]
        assert self.strings[0] == "" and len(set(self.strings)) == len(self.strings), "strings"
        self.types, self.units = zip(*(self._pair(_message(t)) for t in whole[1]))
        self.default = self.strings[whole.get(14, [0])[0]]
        self.period = whole.get(12, [0])[0]
        self.duration = whole[10][0] if 10 in whole else None
        self.mappings = {m[1][0]: Mapping(m.get(2, [0])[0], m.get(3, [0])[0], m.get(4, [0])[0], self._text(m, 5), self._text(m, 6))
                         for m in map(_message, whole.get(3, []))}
        functions = {f[1][0]: (self._text(f, 2), self._text(f, 4)) for f in map(_message, whole.get(5, []))}
        self._locations = {m[1][0]: self._location(m, functions) for m in map(_message, whole.get(4, []))}
        self.samples = [self._sample(_message(sample)) for sample in whole.get(2, [])]

    def _text(self, message, field):
        return self.strings[message.get(field, [0])[0]]

    def _pair(self, message):
        return self._text(message, 1), self._text(message, 2)

    def _location(self, message, functions):
        mapping = message.get(2, [0])[0]
        assert mapping == 0 or mapping in self.mappings, "a location of no mapping"
        lines = [Line(*functions[line[1][0]], line.get(2, [0])[0]) for line in map(_message, message.get(4, []))]
        return Location(message[1][0], mapping, message.get(3, [0])[0], lines)

    def _sample(self, message):
        values = _numbers(message[2])
        assert len(values) == len(self.types), "a sample with another number of values"
        labels = {}
        for label in map(_message, message.get(3, [])):
            key = self._text(label, 1)
            assert key not in labels and (2 in label) != (3 in label), f"label {key}"
            labels[key] = self._text(label, 2) if 2 in label else label[3][0]
        return Sample(dict(zip(self.types, values)), labels, [self._locations[n] for n in _numbers(message[1])])
