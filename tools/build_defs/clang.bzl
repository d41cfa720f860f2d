"""What clang compiles: the sources of tests, and what checks the lock annotations.

    clang_prelude   a precompiled header for clang
    test_objects    the objects of a test

g++ compiles what is shipped. A test's source is compiled once and runs for a moment: clang without
optimization takes half of g++'s time for it, since it reads of a precompiled header only what a
source uses, and it checks the lock annotations by the way. The builds with sanitizers compile
everything by clang (.bazelrc); there the sources of tests are sources like others.
"""

load(":prelude.bzl", "PRELUDE_ATTRIBUTES")

_FLAGS = [
    "-std=c++20",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fPIC",
    "-isystem/usr/include/eigen3",
]

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
    "-Wthread-safety",
    "-Werror",
]

# Where a path in a precompiled header is right in whatever folder clang runs.
CLANG_ENVIRONMENT = {
    "PATH": "/bin:/usr/bin",
    "PWD": "/proc/self/cwd",
}

def clang_flags(ctx, context):
    """The flags, without warnings, for sources that see a compilation context.

    A source and the precompiled header that it reads need the same.
    """
    flags = list(_FLAGS)
    if ctx.var["COMPILATION_MODE"] == "opt":
        flags.append("-DNDEBUG")
    for folder in context.quote_includes.to_list():
        flags += ["-iquote", folder]
    for folder in context.system_includes.to_list() + context.includes.to_list():
        flags += ["-isystem", folder]
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)
    return flags

def _merged(deps):
    return cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in deps]).compilation_context

def _clang_prelude_impl(ctx):
    context = _merged(ctx.attr.deps)
    parsed = ctx.actions.declare_file(ctx.label.name + ".pch")
    headers = depset([ctx.file.src] + ctx.files.hdrs, transitive = [context.headers])

    # Without a time stamp the file is the same wherever it is made.
    ctx.actions.run(
        executable = "/usr/bin/clang++",
        arguments = clang_flags(ctx, context) + [
            "-xc++-header",
            "-fpch-instantiate-templates",
            "-Xclang",
            "-fno-pch-timestamp",
            ctx.file.src.path,
            "-o",
            parsed.path,
        ],
        env = CLANG_ENVIRONMENT,
        inputs = headers,
        outputs = [parsed],
        mnemonic = "ClangPrecompile",
        progress_message = "Precompiling %s for clang" % ctx.file.src.short_path,
    )
    return [
        DefaultInfo(files = depset([parsed])),
        # clang looks for the headers that it was made of.
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = headers)),
    ]

clang_prelude = rule(
    implementation = _clang_prelude_impl,
    attrs = PRELUDE_ATTRIBUTES,
    provides = [CcInfo],
)

def _test_objects_impl(ctx):
    context = _merged(ctx.attr.deps)
    flags = clang_flags(ctx, context) + _WARNINGS
    inputs = depset(
        [file for file in ctx.files.srcs if file.extension == "h"],
        transitive = [context.headers],
    )
    if ctx.attr.prelude:
        flags += ["-include-pch", ctx.file.prelude.path]
        inputs = depset(
            [ctx.file.prelude],
            transitive = [inputs, ctx.attr.prelude[CcInfo].compilation_context.headers],
        )

    # For the script, to say which of them a source did not read.
    names = ctx.actions.args()
    names.use_param_file("%s", use_always = True)
    names.set_param_file_format("multiline")
    names.add_all(inputs)

    objects = []
    for source in ctx.files.srcs:
        if source.extension != "cc":
            continue
        stem = "_clang/%s/%s" % (ctx.label.name, source.short_path[:-len(".cc")].replace("/", "_"))
        compiled = ctx.actions.declare_file(stem + ".pic.o")
        unused = ctx.actions.declare_file(stem + ".unused")
        ctx.actions.run(
            executable = ctx.executable._compile,
            arguments = [
                compiled.path,
                unused.path,
                names,
                source.path,
            ] + flags,
            env = CLANG_ENVIRONMENT,
            inputs = depset([source], transitive = [inputs]),
            outputs = [compiled, unused],
            unused_inputs_list = unused,
            mnemonic = "ClangCompile",
            progress_message = "Compiling " + source.short_path,
        )
        objects.append(compiled)
    return [DefaultInfo(files = depset(objects))]

test_objects = rule(
    implementation = _test_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc", ".h"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "prelude": attr.label(
            allow_single_file = [".pch"],
            providers = [CcInfo],
        ),
        "_compile": attr.label(
            default = "//tools/build_defs:compile_test.sh",
            allow_single_file = True,
            executable = True,
            cfg = "host",
        ),
    },
    doc = "Compiles the sources of a test by clang; its files are the objects.",
)
