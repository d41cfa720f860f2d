#!/usr/bin/env python3
"""Compares the messages in proto/ with the descriptors inside an installed TensorFlow.

Names, numbers, types, cardinality, oneofs and enum values must be the same, and no field or
enum value of a message that we declare may be missing. Messages that only TensorFlow has are no
error, and a message of package tensorflow that TensorFlow has not is one. Services are not
compared: TensorFlow's declare another package than the one on the wire.

Needs a Python with the tensorflow package, and protoc. Run it from anywhere:

  tests/proto/check_against_tensorflow.py             # exits with 1 and says what differs
  tests/proto/check_against_tensorflow.py --write     # also writes tensorflow_fields.txt

tensorflow_fields.txt holds TensorFlow's side of the comparison for the messages that we declare;
proto_fields_test.cc compares against it where there is no TensorFlow. Write it again whenever a
message is added to proto/ or a newer TensorFlow is followed.
"""

import argparse
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FIELDS_FILE = pathlib.Path(__file__).resolve().with_name("tensorflow_fields.txt")

FILE_HEADER = """\
# TensorFlow {version}, from its compiled descriptors: the messages that proto/ declares.
# Written by check_against_tensorflow.py --write.
"""

TYPE_NAMES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 10: "group", 12: "bytes", 13: "uint32", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}


def type_of(field):
    """The type as text: a scalar's name, a full message or enum name, or map<key,value>."""
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name
            return f"map<{type_of(entry['key'])},{type_of(entry['value'])}>"
        return field.message_type.full_name
    if field.enum_type is not None:
        return field.enum_type.full_name
    return TYPE_NAMES[field.type]


def cardinality_of(field):
    """map, packed, repeated, oneof:NAME, presence (can tell unset from zero) or plain."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return "map"
    if field.is_repeated:
        return "packed" if field.is_packed else "repeated"
    oneof = field.containing_oneof
    # A proto3 "optional" sits alone in a made-up oneof named after it.
    if oneof is not None and oneof.name != "_" + field.name:
        return "oneof:" + oneof.name
    return "presence" if field.has_presence else "plain"


def lines_of_enum(enum):
    yield f"enum {enum.full_name}"
    for value in enum.values:
        yield f"value {enum.full_name}.{value.name} {value.number}"


def lines_of_message(message):
    """One line for the message and one for each field; nested types are left out."""
    yield f"message {message.full_name}"
    for field in message.fields:
        yield (f"field {message.full_name}.{field.name} {field.number} {type_of(field)} "
               f"{cardinality_of(field)}")


def types_of(container):
    """All messages and enums declared directly or indirectly in a message."""
    for enum in container.enum_types:
        yield enum
    for message in container.nested_types:
        if not message.GetOptions().map_entry:
            yield message
            yield from types_of(message)


def is_enum(declared):
    return hasattr(declared, "values_by_number")


def lines_of(declared):
    return list(lines_of_enum(declared) if is_enum(declared) else lines_of_message(declared))


def our_types(protoc):
    """full name -> descriptor, for all that proto/ declares in tensorflow's packages."""
    from google.protobuf import descriptor_pb2
    from google.protobuf import descriptor_pool

    sources = sorted(str(p.relative_to(REPOSITORY)) for p in (REPOSITORY / "proto").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "set")
        subprocess.run([protoc, f"-I{REPOSITORY}", "--include_imports",
                        f"--descriptor_set_out={out}"] + sources, check=True, cwd=REPOSITORY)
        with open(out, "rb") as f:
            files = descriptor_pb2.FileDescriptorSet.FromString(f.read()).file

    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    result = {}
    for file in files:
        if file.package != "tensorflow" and not file.package.startswith("tensorflow."):
            continue
        descriptor = pool.FindFileByName(file.name)
        for declared in descriptor.enum_types_by_name.values():
            result[declared.full_name] = declared
        for declared in descriptor.message_types_by_name.values():
            result[declared.full_name] = declared
            for nested in types_of(declared):
                result[nested.full_name] = nested
    return result


def load_tensorflow():
    """Imports every message module of the package, and returns its version."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    site = pathlib.Path(tensorflow.__file__).resolve().parents[1]
    for path in sorted((site / "tensorflow").rglob("*_pb2.py")):
        name = ".".join(path.relative_to(site).with_suffix("").parts)
        try:
            importlib.import_module(name)
        except (ImportError, TypeError):
            # Modules of optional parts do not all load, or declare a name a second time.
            # What they would have declared is then reported as missing.
            pass
    return tensorflow.__version__


def their_type(ours):
    """TensorFlow's descriptor of the same full name, or None."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.Default()
    try:
        if is_enum(ours):
            return pool.FindEnumTypeByName(ours.full_name)
        return pool.FindMessageTypeByName(ours.full_name)
    except KeyError:
        return None


def compare(ours, theirs):
    """Prints each difference of one message or enum, and returns how many there are."""
    own, other = lines_of(ours), lines_of(theirs)
    differences = [f"  ours only:         {line}" for line in own if line not in other]
    differences += [f"  TensorFlow's only: {line}" for line in other if line not in own]
    if differences:
        print(f"{ours.full_name} ({ours.file.name}; {theirs.file.name}):")
        print("\n".join(differences))
    return len(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--protoc", default="protoc", help="the protocol compiler to run")
    parser.add_argument("--write", action="store_true", help=f"write {FIELDS_FILE.name}")
    options = parser.parse_args()

    version = load_tensorflow()
    ours = our_types(options.protoc)
    differences, lines = 0, []
    for name in sorted(ours):
        theirs = their_type(ours[name])
        if theirs is None:
            print(f"{name} ({ours[name].file.name}): TensorFlow {version} has no such type")
            differences += 1
            continue
        differences += compare(ours[name], theirs)
        lines += lines_of(theirs)

    if options.write:
        FIELDS_FILE.write_text(FILE_HEADER.format(version=version) + "\n".join(lines) + "\n")
    print(f"{len(ours)} messages and enums compared with TensorFlow {version}: "
          f"{differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
