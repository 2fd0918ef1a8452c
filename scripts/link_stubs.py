#!/usr/bin/env python3
"""Makes libraries to link against that have only what an older system has: the binaries then load there, and everywhere newer.

usage: link_stubs.py CXX GLIBC FOLDER

CXX     the compiler whose libraries are taken as the model, a cross compiler too
GLIBC   the version of glibc to reach back to: 2.26
FOLDER  where the libraries go; link with -L FOLDER

A library keeps every symbol that it ever had under the version it had then. A stub has the symbols of the compiler's own library up to the
versions of that time, each under the newest of them, and no code. What is younger and cannot be done without is in older_glibc.cpp, and the
conversion of doubles to text in the static libstdc++, which comes last, so that nothing else is taken from it.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# The newest versions in manylinux_2_26; what glibc has is the argument
LIMITS = {"GLIBCXX": (3, 4, 22), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}


def key(version):
    return tuple(int(part) for part in version.split("."))


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def symbols(library, limits):
    """Of every symbol the newest version within the limits: {name: (version, type, size)}"""
    found = {}
    for line in run("readelf", "--dyn-syms", "-W", library).splitlines():
        words = line.split()
        if len(words) < 8 or words[6] == "UND" or "@" not in words[7] or words[4] == "LOCAL":
            continue
        name, version = re.split("@+", words[7])
        family, _, number = version.partition("_")
        if family not in limits or not re.fullmatch(r"[0-9.]+", number) or key(number) > limits[family]:
            continue
        if name not in found or key(number) > key(found[name][0].partition("_")[2]):
            # readelf writes large sizes in hexadecimal
            found[name] = (version, words[3], int(words[2], 0))
    return found


def assembly(table):
    lines = []
    for number, (name, (version, kind, size)) in enumerate(sorted(table.items())):
        label = f"stub_{number}"
        if kind == "TLS":
            lines += ['.section .tbss,"awT",%nobits', f".type {label}, %tls_object"]
        elif kind == "OBJECT":
            lines += [".bss", f".type {label}, %object"]
        else:
            lines += [".text", f".type {label}, %function"]
            size = 4
        # What is copied into a program has to be as aligned as it may ever be
        lines += [".balign 16", f".globl {label}", f"{label}:", f".space {max(size, 1)}", f".size {label}, {size}",
                  f".symver {label}, {name}@@{version}, remove"]
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",%progbits\n'


def stub(cxx, library, soname, limits, folder):
    table = symbols(library, limits)
    source, script, target = folder / f"{soname}.s", folder / f"{soname}.map", folder / soname
    source.write_text(assembly(table))
    versions = sorted({version for version, _, _ in table.values()}, key=lambda text: (text.partition("_")[0], key(text.partition("_")[2])))
    script.write_text("".join(f"{version} {{}};\n" for version in versions))
    run(cxx, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}", source, "-o", target)
    return target


def empty(cxx, soname, folder):
    """A library of which nothing but its name is needed."""
    source = folder / f"{soname}.s"
    source.write_text('.section .note.GNU-stack,"",%progbits\n')
    run(cxx, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", source, "-o", folder / soname)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__.strip())
    cxx, glibc, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    folder.mkdir(parents=True, exist_ok=True)

    def model(name):
        path = pathlib.Path(run(cxx, f"-print-file-name={name}").strip())
        if not path.is_absolute():
            raise SystemExit(f"link_stubs.py: {cxx} has no {name}")
        return path

    limits = {**LIMITS, "GLIBC": key(glibc)}
    libc = stub(cxx, model("libc.so.6"), "libc.so.6", limits, folder)
    libm = stub(cxx, model("libm.so.6"), "libm.so.6", limits, folder)
    libstdcxx = stub(cxx, model("libstdc++.so"), "libstdc++.so.6", limits, folder)
    # Until glibc 2.34 threads and dlopen were libraries of their own: their symbols are in libc.so.6 here, their names are needed there
    for name in ("libpthread.so.0", "libdl.so.2"):
        empty(cxx, name, folder)
    objects = []
    for name in ("older_glibc", "older_start"):
        objects.append(folder / f"{name}.o")
        run(cxx, "-c", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-std=c++17", HERE / f"{name}.cpp", "-o", objects[-1])
    archive = folder / "libolder_glibc.a"
    archive.unlink(missing_ok=True)
    run(run(cxx, "-print-prog-name=ar").strip(), "crs", archive, *objects)
    loader = re.search(r"AS_NEEDED \( (\S+) \)", model("libc.so").read_text())[1]
    loader = f"AS_NEEDED ( {model(pathlib.Path(loader).name)} )"
    (folder / "libc.so").write_text(
        f"GROUP ( {libc} {archive} {model('libc_nonshared.a')} {loader} )\n")
    (folder / "libm.so").write_text(f"GROUP ( {libm} )\n")
    (folder / "libstdc++.so").write_text(f"GROUP ( {libstdcxx} {archive} {model('libstdc++.a')} )\n")


if __name__ == "__main__":
    main()
