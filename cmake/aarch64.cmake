# Cross build for 64-bit ARM Linux with Debian's gcc-aarch64-linux-gnu:
#
#   cmake -B build/arm64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake
#
# needs the libraries of the README for arm64 (Debian: dpkg --add-architecture arm64, then libjansson-dev:arm64
# and so on). With -DHASTEN_WITHOUT_PACKAGES=ON it needs none of them and builds what the tests run under
# emulation (tests/emulated).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(aarch64_gcc aarch64-linux-gnu-gcc)
if(NOT aarch64_gcc)
  message(FATAL_ERROR "aarch64-linux-gnu-gcc is not there: install gcc-aarch64-linux-gnu (scripts/deps --test)")
endif()
set(CMAKE_C_COMPILER "${aarch64_gcc}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu /usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
