"""A folder with nothing but the static archives of gRPC, Protocol Buffers and Abseil.

The linker takes libNAME.so before libNAME.a when a folder holds both, as the system's library
folder does. Given this folder first (-L), the very same -lNAME options that link tests to shared
libraries make a self-contained binary. What has no archive here (oneDNN, spdlog, OpenSSL, zlib) stays
shared.
"""

_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]

_PREFIXES = [
    "libabsl_",
    "libaddress_sorting.",
    "libcares.",
    "libfarmhash.",
    "libgpr.",
    "libgrpc.",
    "libgrpc++.",
    "libgrpc++_reflection.",
    "libprotobuf.",
    "libre2.",
    "libsnappy.",
    "libupb.",
]

def _system_archives(repository_ctx):
    for folder in _FOLDERS:
        path = repository_ctx.path(folder)
        if not path.exists or not path.get_child("libgrpc.a").exists:
            continue
        for file in path.readdir():
            for prefix in _PREFIXES:
                if file.basename.startswith(prefix) and file.basename.endswith(".a"):
                    repository_ctx.symlink(file, "lib/" + file.basename)
        break
    repository_ctx.file("BUILD", """
filegroup(
    name = "archives",
    srcs = glob(["lib/*.a"]),
    visibility = ["//visibility:public"],
)
""")

system_archives = repository_rule(
    implementation = _system_archives,
    local = True,
    doc = "Links the system's static archives into one folder.",
)
