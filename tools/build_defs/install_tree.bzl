"""What is installed for C++ programs that are built elsewhere, in one archive.

    bin/            the programs
    include/tandem  every header that "tandem.h" reaches, those of generated messages too
    lib             libtandem.so, with every op, kernel and device
    lib/pkgconfig   tandem.pc, which finds the rest from where it lies itself

One shared library instead of an archive: ops and kernels register themselves when it is loaded,
whether or not the program's linker sees a use of them, and Abseil, Protocol Buffers and oneDNN are
the system's own, which the program shares.
"""

# g++ finds these libraries' headers included by ours; what they need comes along.
_REQUIRES = [
    "absl_any_invocable",
    "absl_flat_hash_map",
    "absl_function_ref",
    "absl_inlined_vector",
    "absl_optional",
    "absl_span",
    "absl_status",
    "absl_statusor",
    "absl_str_format",
    "absl_strings",
    "absl_time",
]

def _install_tree_impl(ctx):
    info = ctx.attr.library[CcInfo]

    # Objects, not archives: of those a linker would leave out what nobody calls.
    objects = []
    link_flags = []
    for linker_input in info.linking_context.linker_inputs.to_list():
        link_flags += linker_input.user_link_flags
        for library in linker_input.libraries:
            objects += library.pic_objects or library.objects or []
    shared = ctx.actions.declare_file("_%s/libtandem.so" % ctx.label.name)
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s", use_always = True)
    arguments.add_all(["-shared", "-o", shared, "-Wl,-soname,libtandem.so", "-Wl,--no-undefined"])
    arguments.add_all(objects)
    arguments.add("-Wl,--as-needed")
    arguments.add_all(link_flags)
    ctx.actions.run(
        executable = "/usr/bin/g++",
        inputs = objects,
        outputs = [shared],
        arguments = [arguments],
        use_default_shell_env = True,
        mnemonic = "LinkShared",
        progress_message = "Linking libtandem.so",
    )

    # Lines "what where".
    files = [shared.path + " lib/libtandem.so"]
    headers = []
    for header in info.compilation_context.headers.to_list():
        # Precompiled headers and the like are for the build.
        if header.extension != "h" or header.short_path.startswith("tools/"):
            continue
        headers.append(header)
        files.append("%s include/tandem/%s" % (header.path, header.short_path))
    for program in ctx.files.programs:
        files.append("%s bin/%s" % (program.path, program.basename))
    manifest = ctx.actions.declare_file("_%s/manifest" % ctx.label.name)
    ctx.actions.write(manifest, "\n".join(files) + "\n")

    tree = ctx.actions.declare_file(ctx.label.name + ".tar")
    ctx.actions.run_shell(
        inputs = [shared, manifest, ctx.file.version] + headers + ctx.files.programs,
        outputs = [tree],
        arguments = [manifest.path, ctx.file.version.path, tree.path, " ".join(_REQUIRES)],
        use_default_shell_env = True,
        mnemonic = "InstallTree",
        progress_message = "Packing what is installed",
        command = """
            set -euo pipefail
            root=$(mktemp -d)
            trap 'rm -rf "$root"' EXIT
            while read -r from to; do
              mkdir -p "$root/${to%/*}"
              cp -L "$from" "$root/$to"
            done <"$1"
            version=$(sed -n 's/.*kVersion.* = "\\(.*\\)";.*/\\1/p' "$2")
            mkdir -p "$root/lib/pkgconfig"
            {
              echo 'prefix=${pcfiledir}/../..'
              echo
              echo 'Name: Tandem'
              echo 'Description: runs and trains dataflow graphs'
              echo "Version: $version"
              echo "Requires: $4"
              echo 'Cflags: -std=c++20 -I${prefix}/include/tandem'
              echo 'Libs: -L${prefix}/lib -Wl,-rpath,${prefix}/lib -ltandem'
            } >"$root/lib/pkgconfig/tandem.pc"
            chmod -R u+w,go+rX "$root"
            tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$3" -C "$root" .
        """,
    )
    return [DefaultInfo(files = depset([tree]), runfiles = ctx.runfiles([tree]))]

install_tree = rule(
    implementation = _install_tree_impl,
    attrs = {
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "programs": attr.label_list(),
        "version": attr.label(
            mandatory = True,
            allow_single_file = [".h"],
            doc = "The header with kVersion.",
        ),
    },
    doc = "Makes NAME.tar with all that tools/install unpacks.",
)
