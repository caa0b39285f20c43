module moonfence.invalid/cluster/toolchain

go 1.19
