"""The rules of Tandem's BUILD files.

    tandem_cc_library       a library
    tandem_kernel_library   a library that registers ops or kernels when the program starts
    tandem_cc_test          a GoogleTest, compiled by clang (clang.bzl)
    tandem_cc_binary        a program: gRPC, Protocol Buffers and Abseil inside, oneDNN shared
    tandem_proto_library    generated C++ code for .proto files, with gRPC services if asked

They know the layers (see layer_of): a library may depend on its own layer and on lower ones, and a
BUILD file that names a higher one does not load. Tests and testonly libraries of a layer up to
runtime/ may depend on everything up to runtime/. A target is visible to whoever may depend on it
unless `visibility` says less.
"""

load(":clang.bzl", "test_objects")
load(":prelude.bzl", "TEST_COPTS", "VECTORIZE")

# Lowest first. "" is the package at the root, tandem.h.
_LAYERS = [
    ["proto"],
    ["core"],
    ["kernels"],
    ["runtime"],
    ["strategies"],
    [""],
    ["tools", "docs"],
    ["tests"],
]

_GROUP_NAMES = {
    "": "root",
    "docs": "tools",
}

# A test or a testonly library below this layer may use the layers up to it.
_TESTS_REACH = "runtime"

def _folder(package):
    return package.split("/")[0]

def _rank(folder):
    for rank, folders in enumerate(_LAYERS):
        if folder in folders:
            return rank
    return -1

def _visibility(visibility):
    if visibility != None:
        return visibility
    folder = _folder(native.package_name())
    if _rank(folder) < 0:
        return None
    return ["//:%s_users" % _GROUP_NAMES.get(folder, folder)]

def _check_layers(name, deps, testing):
    own = _folder(native.package_name())
    limit = _rank(own)
    if limit < 0 or type(deps) != type([]):
        return
    if testing:
        limit = max(limit, _rank(_TESTS_REACH))
    for dep in deps:
        if not dep.startswith("//"):
            continue
        other = _folder(dep[2:].split(":")[0])
        if _rank(other) > limit:
            fail(("//%s:%s depends on %s: the layer '%s' may not use the layer '%s' above it. " +
                  "Layers, top first: tools and docs, tandem.h, strategies, runtime, kernels, " +
                  "core, proto.") %
                 (native.package_name(), name, dep, own, other or "tandem.h"))

# The sources of a target read a precompiled header (prelude.bzl); `name` is that of its rule. With
# it g++ takes over the options that the header was parsed with, whatever the source's own are.
def _prelude(name):
    label = "//tools/build_defs:compiled_" + name

    # The whole path: clang looks for the parsed form only there.
    header = "$(GENDIR)/tools/build_defs/compiled_%s.h" % name
    return struct(
        deps = select({"//tools/build_defs:no_prelude": [], "//conditions:default": [label]}),
        copts = select({
            "//tools/build_defs:no_prelude": [],
            "//conditions:default": ["-include", header, "-Winvalid-pch"],
        }),
    )

_PRELUDES = {
    kind: _prelude(kind + "prelude")
    for kind in [
        "",
        "test_",
        "core_",
        "core_test_",
        "core_vector_",
        "grpc_",
        "grpc_test_",
    ]
}
_NO_PRELUDE = struct(deps = [], copts = [])

# Most of whose sources include gRPC's headers.
_GRPC_PACKAGES = [
    "runtime/cluster/membership",
    "runtime/rpc",
]

# Which fits this package's targets.
def _prelude_kind():
    package = native.package_name()
    if package in _GRPC_PACKAGES:
        return "grpc_"
    return "core_" if _rank(_folder(package)) > _rank("core") else ""

# That of this package's targets; `kind` is "", "test_" or "vector_".
def _prelude_here(kind = ""):
    return _PRELUDES[_prelude_kind() + kind]

def _library_prelude(copts, testonly, vectorize):
    if copts:
        return _NO_PRELUDE
    return _prelude_here("vector_" if vectorize else "test_" if testonly else "")

def tandem_cc_library(
        name,
        deps = [],
        copts = [],
        visibility = None,
        testonly = False,
        vectorize = False,
        **kwargs):
    """A cc_library that keeps to the layers.

    With `vectorize`, loops without dependencies between iterations become vector code, also those
    with conditions (VECTORIZE).
    """
    _check_layers(name, deps, testonly)
    prelude = _library_prelude(copts, testonly, vectorize)
    native.cc_library(
        name = name,
        deps = deps + prelude.deps,
        copts = (VECTORIZE if vectorize else TEST_COPTS if testonly else []) + copts +
                prelude.copts,
        testonly = testonly,
        visibility = _visibility(visibility),
        **kwargs
    )

def tandem_kernel_library(name, **kwargs):
    """A library whose objects reach every program that depends on it, referenced or not.

    A linker drops from an archive the objects that nobody calls, and what registers itself is
    called by nobody.
    """
    tandem_cc_library(name = name, alwayslink = True, **kwargs)

def tandem_cc_test(
        name,
        srcs = None,
        deps = [],
        size = "small",
        part = None,
        tags = [],
        visibility = None,
        **kwargs):
    """A GoogleTest with its main(); `srcs` defaults to NAME.cc.

    A test with a `part` (faults, clients, seeds, ...) is not in the plain tools/test; it runs in
    `tools/test --long --part=PART`.

    Test libraries are linked as shared objects: that is quick, and the thread sanitizer needs it.
    """
    _check_layers(name, deps, True)
    srcs = srcs or [name + ".cc"]
    deps = deps + [
        "//third_party:gtest_main",
        "//tools/build_defs:sanitizer_options",
    ]
    test_objects(
        name = name + "_objects",
        testonly = True,
        srcs = srcs,
        deps = deps,
        prelude = select({
            "//tools/build_defs:no_prelude": None,
            "//conditions:default": "//tools/build_defs:clang_%stest_prelude" % _prelude_kind(),
        }),
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    prelude = _prelude_here("test_")
    native.cc_test(
        name = name,
        srcs = select({
            "//tools/build_defs:clang": srcs,
            "//conditions:default": [name + "_objects"],
        }),
        size = size,
        tags = tags + (["long", "part-" + part] if part else []),
        deps = deps + prelude.deps,
        copts = prelude.copts,
        visibility = _visibility(visibility),
        **kwargs
    )

# oneDNN calls these; runtime/threads defines them over Tandem's own pool. A program must export
# them so that the shared oneDNN finds them there before it finds libgomp's.
_OPENMP_SYMBOLS = [
    "GOMP_barrier",
    "GOMP_parallel",
    "omp_get_max_threads",
    "omp_get_num_threads",
    "omp_get_thread_num",
    "omp_in_parallel",
]

def tandem_cc_binary(
        name,
        srcs = None,
        deps = [],
        copts = [],
        linkopts = [],
        visibility = None,
        **kwargs):
    """A program that runs on a machine without gRPC, Protocol Buffers and Abseil installed."""
    _check_layers(name, deps, False)
    prelude = _prelude_here()
    native.cc_binary(
        name = name,
        srcs = srcs or [name + ".cc"],
        deps = deps + ["//tools/build_defs:sanitizer_options"] + prelude.deps,
        copts = copts + prelude.copts,
        linkstatic = True,
        additional_linker_inputs = ["@system_archives//:archives"],
        linkopts = ["-Lexternal/system_archives/lib"] +
                   ["-Wl,--export-dynamic-symbol=" + symbol for symbol in _OPENMP_SYMBOLS] +
                   linkopts,
        visibility = _visibility(visibility),
        **kwargs
    )

def _proto_files(label):
    if label.startswith("//") and ":" not in label:
        label = label + ":" + label.split("/")[-1]
    return label + "_proto_files"

def tandem_proto_library(name, srcs, deps = [], grpc = False, visibility = None, **kwargs):
    """C++ code for .proto files, included by its path from the root ("proto/types.pb.h").

    Args:
      name: the cc_library with the generated code.
      srcs: .proto files of this package.
      deps: the tandem_proto_library targets that hold what `srcs` import.
      grpc: also generate the services (X.grpc.pb.h).
      visibility: as usual.
      **kwargs: for the cc_library.
    """
    _check_layers(name, deps, False)
    visibility = _visibility(visibility)
    native.filegroup(
        name = name + "_proto_files",
        srcs = srcs + [_proto_files(dep) for dep in deps],
        visibility = visibility,
    )

    endings = [".pb"] + ([".grpc.pb"] if grpc else [])
    stems = [src[:-len(".proto")] for src in srcs]
    headers = [stem + ending + ".h" for stem in stems for ending in endings]
    sources = [stem + ending + ".cc" for stem in stems for ending in endings]
    command = "protoc -I. -I/usr/include --cpp_out=$(GENDIR)"
    if grpc:
        command += " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    native.genrule(
        name = name + "_generate",
        srcs = [name + "_proto_files"],
        outs = headers + sources,
        cmd = command + " " + " ".join(
            [("%s/%s" % (native.package_name(), src)).lstrip("/") for src in srcs],
        ),
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        deps = deps + ["//third_party:protobuf"] + (["//third_party:grpc"] if grpc else []) +
               _PRELUDES[""].deps,
        copts = _PRELUDES[""].copts,
        visibility = visibility,
        **kwargs
    )
