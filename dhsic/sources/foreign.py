"""What is at a path that is no Zarr, and how it becomes readable."""

from __future__ import annotations

from pathlib import Path

#: From any VCF, sorted or not, to VCF Zarr: bio2zarr wants one that is sorted and has an index.
FROM_VCF = (
    "pip install pysam 'bio2zarr[vcf]' && python -c \"from pysam import bcftools as b; "
    "b.sort('-Ob', '-o', 'sorted.bcf', {path!r}, catch_stdout=False); b.index('sorted.bcf')\" && "
    "vcf2zarr convert sorted.bcf out.vcz (where bcftools is at hand: bcftools sort and index; or "
    "plink2 --vcf FILE --make-pgen --out out, then pass out.pgen)"
)
#: What ends the name of a file that is not Zarr, what it is, and how it becomes readable.
FOREIGN = (
    ((".vcf", ".vcf.gz", ".vcf.bgz", ".bcf"), "VCF", FROM_VCF),
    (
        (".bgen",),
        "BGEN",
        "plink2 --bgen {path} ref-first --make-pgen --out x, then pass x.pgen",
    ),
    ((".loom",), "Loom", "anndata.io.read_loom(path).write_h5ad('out.h5ad')"),
    ((".h5", ".hdf5", ".nc"), "HDF5", "xarray.open_dataset(path, chunks={{}}).to_zarr('out.zarr')"),
    ((".xlsx", ".xls"), "Excel", "X = pandas.read_excel(path, index_col=0)"),
    ((".mtx", ".mtx.gz"), "Matrix Market", "X = scipy.io.mmread(path).toarray()"),
)


def nothing_at(path: str, *, is_url: bool) -> str:
    """What to say of a path or URL at which there is no Zarr."""
    for suffixes, name, remedy in FOREIGN:
        if path.lower().endswith(suffixes):
            is_there = is_url or Path(path).exists()
            there = "is" if is_there else "is not there, and would be"
            return (
                f"{path} {there} a file in {name} format, and dhsic reads Zarr. Read or convert it "
                f"first: {remedy.format(path=path, stem=path.rpartition('.')[0])}."
            )
    if is_url:
        return (
            f"There is no Zarr array or group at {path}. Check the path, and the credentials "
            "(in the environment, or storage_options)."
        )
    if Path(path).is_file():
        return (
            f"There is no Zarr array or group at {path}: it is a file of another format. Pass the "
            "folder or the .zip file of a Zarr store, or read it and pass the array."
        )
    if Path(path).is_dir():
        held = sorted(p.name for p in Path(path).iterdir())
        some = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "")
        return (
            f"There is no Zarr array or group at {path}: it is a folder with {some or 'nothing'} "
            "in it. Pass the folder that holds zarr.json (or .zgroup, .zarray) itself."
        )
    return f"There is no Zarr array or group at {path}, nor anything else. Check the path."
