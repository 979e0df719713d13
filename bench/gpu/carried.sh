# shellcheck shell=bash disable=SC2154
# Sourced, with a folder of bench/gpu/carry.sh in $carried and one to unpack into in
# $unpacked: has CMake, the linker and Open MPI find what is in there. Adds what CMake
# can't find by itself to $settings.
rm -rf "$unpacked"
mkdir -p "$unpacked"
tar -xzf "$carried/packages.tar.gz" -C "$unpacked" || exit 1
unpacked=$(cd "$unpacked" && pwd)
prefix=$unpacked/usr
libraries=$prefix/lib/x86_64-linux-gnu

export CMAKE_PREFIX_PATH=$prefix${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
export CPLUS_INCLUDE_PATH=$prefix/include # RapidJSON's own settings name /usr/include
export PATH=$prefix/bin:$PATH
# What was there stays first in the way of programs of the machine's own.
own_library_path=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH=$libraries:$libraries/openmpi/lib:$unpacked/lib/x86_64-linux-gnu${own_library_path:+:$own_library_path}

# Open MPI asks these instead of where it would be installed.
export OPAL_PREFIX=$libraries/openmpi
export OPAL_LIBDIR=$libraries/openmpi/lib OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3
export OPAL_BINDIR=$prefix/bin OPAL_DATADIR=$prefix/share OPAL_PKGDATADIR=$prefix/share/openmpi
export OPAL_SYSCONFDIR=$unpacked/etc/openmpi
export PMIX_INSTALL_PREFIX=$prefix PMIX_LIBDIR=$libraries PMIX_PKGLIBDIR=$libraries/pmix2/lib/pmix
export OMPI_MCA_plm_rsh_agent=sh OMPI_MCA_mca_base_component_show_load_errors=0

# The compiler wrapper would name the folders of an installation.
settings+=(
  -DMPI_SKIP_COMPILER_WRAPPER=ON -DMPI_CXX_SKIP_MPICXX=ON
  "-DMPI_CXX_HEADER_DIR=$libraries/openmpi/include" -DMPI_CXX_LIB_NAMES=mpi
  "-DMPI_mpi_LIBRARY=$libraries/openmpi/lib/libmpi.so"
  "-DMPIEXEC_EXECUTABLE=$prefix/bin/mpirun.openmpi")
