"""Code for GPUs.

    tandem_gpu_code(
        name = "unary_gpu_code",
        src = "unary_gpu.cu.cc",
    )

gives two libraries:

    :unary_gpu_code            the code as a fat binary, as ::tandem::GpuCode kUnaryGpuCode, declared
                               by unary_gpu_code.h; empty in a build without --config=cuda
    :unary_gpu_code_emulated   the same source for the emulated GPU, compiled by g++; for tests
"""

load(":tandem.bzl", "tandem_cc_library", "tandem_kernel_library")

# Of the last one, code for newer devices is kept as PTX, too, which the driver compiles.
ARCHITECTURES = {
    "default": ["80", "90"],
    # Quicker.
    "one": ["80"],
}

def _nvcc_flags(architectures):
    flags = [
        "--generate-code=arch=compute_%s,code=sm_%s" % (number, number)
        for number in architectures
    ]
    newest = architectures[-1]
    flags.append("--generate-code=arch=compute_%s,code=compute_%s" % (newest, newest))
    return " ".join(flags)

def _camel(name):
    return "".join([word.capitalize() for word in name.split("_")])

def tandem_gpu_code(name, src, hdrs = [], visibility = None):
    """See above.

    Args:
      name: of the library and of its header.
      src: NAME_gpu.cu.cc.
      hdrs: headers of the same kind that it includes.
      visibility: as usual.
    """
    constant = "k" + _camel(name)
    symbol = "tandem_%s_%s" % (native.package_name().replace("/", "_"), name)
    headers = hdrs + [
        "//core/kernel:gpu_code.h",
        "//core/kernel:gpu_number.h",
    ]
    native.genrule(
        name = name + "_compile",
        srcs = [src] + headers,
        outs = [name + ".fatbin"],
        cmd = ("$${CUDA_HOME:-/usr/local/cuda}/bin/nvcc -fatbin -std=c++20 -I. " +
               "--fmad=false -O3 " +
               "--expt-relaxed-constexpr --compress-mode=size -x cu $(location %s) -o $@ " % src) + select({
            "//tools/build_defs:cuda_one": _nvcc_flags(ARCHITECTURES["one"]),
            "//conditions:default": _nvcc_flags(ARCHITECTURES["default"]),
        }),
        message = "Compiling for GPUs",
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    native.genrule(
        name = name + "_declare",
        outs = [name + ".h"],
        cmd = "\n".join([
            "cat > $@ <<'END'",
            "#pragma once",
            "#include \"core/kernel/gpu.h\"",
            "namespace tandem {",
            "extern const GpuCode %s;" % constant,
            "}",
            "END",
        ]),
        visibility = ["//visibility:private"],
    )

    # The bytes lie in a section of the name that tools look for.
    assembly = "\n".join([
        ".section .nv_fatbin, \"a\", @progbits",
        ".balign 16",
        ".hidden {0}",
        ".global {0}",
        "{0}:",
        ".incbin \"$(GENDIR)/{1}/{2}.fatbin\"",
        ".hidden {0}_end",
        ".global {0}_end",
        "{0}_end:",
        ".section .note.GNU-stack, \"\", @progbits",
    ]).format(symbol, native.package_name(), name)
    native.genrule(
        name = name + "_embed",
        outs = [name + "_image.S"],
        cmd = "cat > $@ <<'END'\n" + assembly + "\nEND",
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name + "_image",
        srcs = [name + "_image.S"],
        textual_hdrs = [name + ".fatbin"],
        linkstatic = True,
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    native.genrule(
        name = name + "_define",
        outs = [name + ".cc"],
        cmd = "\n".join([
            "cat > $@ <<'END'",
            "#include \"%s/%s.h\"" % (native.package_name(), name),
            "#ifdef TANDEM_CUDA",
            "extern \"C\" const unsigned char %s[];" % symbol,
            "extern \"C\" const unsigned char %s_end[];" % symbol,
            "namespace tandem {",
            "const GpuCode %s = {\"%s/%s\", %s," %
            (constant, native.package_name(), src, symbol),
            "    static_cast<size_t>(%s_end - %s)};" % (symbol, symbol),
            "}",
            "#else",
            "namespace tandem {",
            "const GpuCode %s = {\"%s/%s\", nullptr, 0};" %
            (constant, native.package_name(), src),
            "}",
            "#endif",
            "END",
        ]),
        visibility = ["//visibility:private"],
    )
    tandem_cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [name + ".h"],
        local_defines = select({
            "//tools/build_defs:cuda": ["TANDEM_CUDA"],
            "//conditions:default": [],
        }),
        deps = ["//core/kernel:gpu"] + select({
            "//tools/build_defs:cuda": [":%s_image" % name],
            "//conditions:default": [],
        }),
        visibility = visibility,
    )
    tandem_kernel_library(
        name = name + "_emulated",
        testonly = True,
        srcs = [src] + hdrs,
        deps = ["//core/kernel:gpu_emulation"],
        visibility = visibility,
    )
