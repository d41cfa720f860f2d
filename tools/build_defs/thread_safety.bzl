"""Checks the lock annotations of every C++ source with clang (g++ does not know them).

An aspect, so that Bazel repeats the check of a source only when it or a header it sees changed:

    bazel build --config=thread_safety //...
"""

# lock_check_prelude (BUILD) is made with the same flags.
LOCK_CHECK_FLAGS = [
    "-std=c++20",
    "-march=x86-64-v3",
    "-isystem/usr/include/eigen3",
    "-Wthread-safety",
    "-Werror=thread-safety",
]

def _thread_safety_impl(target, ctx):
    if CcInfo not in target or not hasattr(ctx.rule.attr, "srcs"):
        return [OutputGroupInfo(thread_safety = depset())]
    context = target[CcInfo].compilation_context
    if ctx.label.workspace_name:
        return [OutputGroupInfo(thread_safety = depset())]

    flags = list(LOCK_CHECK_FLAGS)
    for folder in context.quote_includes.to_list():
        flags += ["-iquote", folder]
    for folder in context.system_includes.to_list() + context.includes.to_list():
        flags += ["-isystem", folder]
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)

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
                [source, ctx.file._prelude, ctx.file._prelude_source] + private_headers,
                transitive = [context.headers],
            ),
            outputs = [stamp],
            arguments = [source.path, stamp.path, ctx.file._prelude.path] + flags,
            use_default_shell_env = True,
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
            default = "//tools/build_defs:lock_check_prelude",
            allow_single_file = True,
        ),
        # clang looks for it.
        "_prelude_source": attr.label(
            default = "//tools/build_defs:test_prelude.h",
            allow_single_file = True,
        ),
    },
    doc = "Adds the output group thread_safety: one stamp for each checked source.",
)
