"""precompiled_header: a header that g++ parses once instead of in each source.

Parsing the standard library, Abseil, Protocol Buffers and GoogleTest is half of what compiling one
of Tandem's sources takes. A target that depends on a precompiled_header and is compiled with
`-include` of it (the rules of tandem.bzl do both) reads the parsed form. Sources still include
what they use; `tools/test --long --part=includes` compiles without, to notice those that do not.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# Nothing in Tandem looks at errno after a function of mathematics, or at floating-point exceptions;
# nothing is reassociated.
VECTORIZE = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
]

# What the helpers of tests cost is compiling them; what they call is in libraries.
TEST_COPTS = select({
    "//tools/build_defs:clang": [],
    "//conditions:default": ["-O1"],
})

# What a header that is precompiled, by whichever compiler, is made of.
PRELUDE_ATTRIBUTES = {
    "src": attr.label(allow_single_file = [".h"], mandatory = True),
    "hdrs": attr.label_list(allow_files = [".h"], doc = "Preludes that `src` includes."),
    "deps": attr.label_list(
        providers = [CcInfo],
        doc = "The libraries whose headers `src` includes. Defines of theirs are not used.",
    ),
}

def _precompiled_header_impl(ctx):
    # Beside each other, and not in the tree of sources, where the plain header would be found
    # first.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.symlink(output = header, target_file = ctx.file.src)
    parsed = ctx.actions.declare_file(ctx.label.name + ".h.gch")

    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = parsed.path,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        use_pic = True,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
        variables = variables,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
        ),
        arguments = ["-x", "c++-header"] + ctx.attr.header_copts + flags,
        # A path that is right wherever it is read; clang writes its own into the file.
        env = {"PWD": "/proc/self/cwd"},
        inputs = depset(
            [header, ctx.file.src] + ctx.files.hdrs,
            transitive = [toolchain.all_files, context.headers],
        ),
        outputs = [parsed],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + ctx.file.src.short_path,
    )
    return [
        DefaultInfo(files = depset([header, parsed])),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset(
                [header, parsed, ctx.file.src] + ctx.files.hdrs,
                transitive = [context.headers],
            ),
        )),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = dict(
        PRELUDE_ATTRIBUTES,
        copts = attr.string_list(doc = "Those of the sources that read it."),
        header_copts = attr.string_list(doc = "What the compiler needs besides, to write it."),
        _cc_toolchain = attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    ),
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    provides = [CcInfo],
)
