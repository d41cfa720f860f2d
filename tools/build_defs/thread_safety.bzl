"""Checks the lock annotations of every C++ source with clang (g++ does not know them).

Those of tests are checked when they are compiled (clang.bzl).

An aspect, so that Bazel repeats the check of a source only when it or a header it sees changed:

    bazel build --config=thread_safety //...
"""

load(":clang.bzl", "CLANG_ENVIRONMENT", "clang_flags")

def _thread_safety_impl(target, ctx):
    if CcInfo not in target or not hasattr(ctx.rule.attr, "srcs"):
        return [OutputGroupInfo(thread_safety = depset())]
    context = target[CcInfo].compilation_context
    if ctx.label.workspace_name:
        return [OutputGroupInfo(thread_safety = depset())]

    flags = clang_flags(ctx, context) + ["-Wthread-safety", "-Werror=thread-safety"]

    # core/'s own sources see their headers in another order than what is above them.
    low = ctx.label.package.split("/")[0] in ["core", "proto"]
    prelude = ctx.attr._prelude if low else ctx.attr._core_prelude
    parsed = prelude[DefaultInfo].files.to_list()[0]

    private_headers = []
    sources = []
    for attribute in ctx.rule.attr.srcs:
        for file in attribute.files.to_list():
            if file.extension == "cc" and file.is_source:
                sources.append(file)
            else:
                private_headers.append(file)

    stamps = []
    for source in sources:
        stamp = ctx.actions.declare_file(
            "_thread_safety/%s/%s.checked" % (ctx.label.name, source.basename),
        )
        ctx.actions.run(
            executable = ctx.executable._check_locks,
            inputs = depset(
                [source, parsed] + private_headers,
                transitive = [context.headers, prelude[CcInfo].compilation_context.headers],
            ),
            outputs = [stamp],
            arguments = [source.path, stamp.path, parsed.path] + flags,
            env = CLANG_ENVIRONMENT,
            mnemonic = "ThreadSafety",
            progress_message = "Checking the locks of " + source.short_path,
        )
        stamps.append(stamp)
    return [OutputGroupInfo(thread_safety = depset(stamps))]

thread_safety = aspect(
    implementation = _thread_safety_impl,
    attrs = {
        "_check_locks": attr.label(
            default = "//tools/build_defs:check_locks.sh",
            allow_single_file = True,
            executable = True,
            cfg = "host",
        ),
        "_prelude": attr.label(
            default = "//tools/build_defs:clang_test_prelude",
            providers = [CcInfo],
        ),
        "_core_prelude": attr.label(
            default = "//tools/build_defs:clang_core_test_prelude",
            providers = [CcInfo],
        ),
    },
    doc = "Adds the output group thread_safety: one stamp for each checked source.",
)
