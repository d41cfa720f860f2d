"""Typed C++ wrappers of ops, generated from what is registered.

    tandem_op_wrappers(name = "ops", deps = [":all_kernels"])

gives the library :ops with the header PACKAGE/ops.h.
"""

load("//tools/build_defs:tandem.bzl", "tandem_cc_library")

def tandem_op_wrappers(name, deps, sources = 8, testonly = False, visibility = None):
    """A library of wrappers for all ops that `deps` register.

    The library itself does not depend on `deps`: a program links the kernels that it wants.

    Args:
      name: of the library and of its header, NAME.h.
      deps: tandem_kernel_library targets.
      sources: how many files the definitions are spread over, so that they compile side by side.
      testonly: as usual.
      visibility: as usual.
    """
    generator = name + "_generator"

    # A tool of the build, so it may stand above the layer that is built with it.
    native.cc_binary(
        name = generator,
        testonly = testonly,
        deps = deps + ["//tools/generate_ops"],
        visibility = ["//visibility:private"],
    )
    header = name + ".h"
    files = ["%s_%d.cc" % (name, i) for i in range(sources)]
    native.genrule(
        name = name + "_generate",
        testonly = testonly,
        outs = [header] + files,
        cmd = "$(location :%s) %s/%s $(OUTS)" % (generator, native.package_name(), header),
        tools = [":" + generator],
        visibility = ["//visibility:private"],
    )
    tandem_cc_library(
        name = name,
        testonly = testonly,
        srcs = files,
        hdrs = [header],
        deps = [
            "//core/graph:scope",
            "//third_party:absl",
        ],
        visibility = visibility,
    )
