#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the relocatable tarball: stoker with the libraries it needs, for any glibc from 2.31 on. It is built in a root of
# Debian 11, whose glibc that is; libuv, libmicrohttpd, SQLite and curl are built there from Debian 12's sources, because Debian
# 11's are too old. Needs root (tools/root.sh).
#
#   deploy/tarball.sh [FOLDER [ROOTS]]     build/tarball, build/roots; the root stays there, and a second build is short
set -eu
SUITE=bullseye SOURCES=bookworm GLIBC_MAX=2.31
LIBS=/opt/libs

# In the root: packages, and the libraries that are too old there.
make_libraries() {
    [ ! -e $LIBS/done ] || return 0
    # whence the root came, and that mirror's security updates
    mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' /etc/apt/sources.list | head -n 1)
    cat >/etc/apt/sources.list <<END
deb $mirror $SUITE main
deb $mirror-security $SUITE-security main
deb $mirror $SOURCES main
deb-src $mirror $SOURCES main
deb-src $mirror-security $SOURCES-security main
END
    # of the newer release only Meson, which is Python
    printf 'Package: *\nPin: release n=%s\nPin-Priority: 50\n\nPackage: meson\nPin: release n=%s\nPin-Priority: 990\n' \
        $SOURCES $SOURCES >/etc/apt/preferences.d/stoker
    apt-get update -q
    apt-get dist-upgrade -y -q --no-install-recommends
    /src/tools/deps.sh build
    apt-get install -y -q --no-install-recommends dpkg-dev tcl xz-utils patchelf automake libtool
    make_library libuv1 libuv.so.1
    make_library libmicrohttpd libmicrohttpd.so.12 --disable-doc --disable-examples --disable-curl
    make_library sqlite3 libsqlite3.so.0 --disable-tcl --disable-readline --disable-load-extension
    make_library curl libcurl-gnutls.so.4 --with-gnutls --without-zlib --without-brotli --without-zstd --without-libpsl --without-librtmp \
        --without-nghttp2 --without-libidn2 --without-libssh2 --disable-manual --disable-ldap --disable-ftp --disable-file \
        --disable-dict --disable-telnet --disable-tftp --disable-pop3 --disable-imap --disable-smb --disable-smtp \
        --disable-gopher --disable-mqtt --disable-rtsp
    ln -sf libcurl.so.4 $LIBS/lib/libcurl-gnutls.so.4 # the name that stoker opens first
    touch $LIBS/done
}

# make_library SOURCE LIBRARY OPTION...
make_library() {
    source=$1 library=$2
    shift 2
    rm -rf "/libs/$source"
    mkdir -p "/libs/$source" $LIBS
    cd "/libs/$source"
    apt-get source -q "$source"
    cd ./*/
    echo "$library $source $(dpkg-parsechangelog -S Version)" >>$LIBS/versions
    mkdir -p "$LIBS/licences"
    cp debian/copyright "$LIBS/licences/$source"
    [ -x configure ] || sh autogen.sh
    CFLAGS='-O2 -g0 -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2' LDFLAGS='-Wl,-z,relro,-z,now' \
        ./configure --prefix=$LIBS --disable-static "$@"
    make -j"$(nproc)"
    make install
}

# In the root: builds, bundles and packs. The paths of libraries are relative to the programs.
make_tarball() {
    cd /src
    version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
    name=stoker-$version-linux-$(uname -m)
    export PKG_CONFIG_PATH=$LIBS/lib/pkgconfig LD_LIBRARY_PATH=$LIBS/lib
    # the program looks for its data and its sampler relative to itself; units name /opt/stoker
    [ -f /build/build.ninja ] || meson setup /build --prefix=/opt/stoker --libdir=lib --libexecdir=libexec -Dtests=false --strip \
        -Dbuildtype=release -Doptimization=2 -Dsbom_from=$LIBS/versions
    ninja -C /build
    rm -rf "/out/$name"
    mkdir -p "/out/$name"
    meson install -C /build --destdir "/out/root" --quiet
    mv /out/root/opt/stoker/* "/out/$name/"
    rm -rf /out/root
    cd "/out/$name"
    bundle_libraries
    cp /src/LICENSE .
    cp /src/deploy/tarball.md README.md
    install -m 755 /src/deploy/install-units.sh install-units
    find . -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
    cd /out
    tar --sort=name --owner=0 --group=0 --numeric-owner --format=ustar --mode=u+w,go-w -cf - "$name" | xz -9 -T1 >"$name.tar.xz"
}

# Copies what the programs need beside glibc into lib/bundled.
bundle_libraries() {
    mkdir -p lib/bundled share/doc/licences
    cp $LIBS/licences/* share/doc/licences/
    rm -f lib/stoker/sim/*/libnvidia-ml.so lib/stoker/sim/*/libcuda.so lib/stoker/sim/*/libcublasLt.so
    programs=$(find bin libexec -type f -perm -u+x)
    {
        echo "libcurl-gnutls.so.4 => $LIBS/lib/libcurl-gnutls.so.4" # is opened, not linked
        for file in $programs $LIBS/lib/libcurl.so.4; do
            ldd "$file"
        done
    } | awk '$2 == "=>" {print $1, $3}' | sort -u | while read -r soname path; do
        case $soname in
        libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|libresolv.so.*|libutil.so.*|libanl.so.*) continue ;;
        esac
        [ -e "$path" ] || { echo "tarball: $soname is not found" >&2; exit 1; }
        cp -L "$path" "lib/bundled/$soname"
        owner=$(dpkg-query -S "$(readlink -f "$path")" "$path" 2>/dev/null | head -n 1 | cut -d: -f1) || owner=
        [ -z "$owner" ] || cp "/usr/share/doc/$owner/copyright" "share/doc/licences/$owner"
    done
    patchelf --set-soname libcurl-gnutls.so.4 lib/bundled/libcurl-gnutls.so.4
    chmod 644 lib/bundled/*
    for file in lib/bundled/*; do
        patchelf --set-rpath '$ORIGIN' "$file"
    done
    for file in $programs; do
        patchelf --set-rpath "\$ORIGIN/$(dirname "$file" | sed 's,[^/][^/]*,..,g')/lib/bundled" "$file"
    done
    newest=$(find . -type f \( -name '*.so*' -o -perm -u+x \) -exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_[0-9][0-9.]*' | sort -uV | tail -n 1)
    if [ "$(printf '%s\n' "$newest" GLIBC_$GLIBC_MAX | sort -V | tail -n 1)" != GLIBC_$GLIBC_MAX ]; then
        echo "tarball: it needs $newest, and is to run with $GLIBC_MAX" >&2
        exit 1
    fi
}

case ${1:-} in
--libraries) make_libraries ;;
--tarball) make_tarball ;;
*)
    cd "$(dirname "$0")/.."
    folder=${1:-build/tarball}
    roots=${2:-build/roots}
    mkdir -p "$folder" "$roots"
    folder=$(cd "$folder" && pwd)
    root=$(cd "$roots" && pwd)/$SUITE
    : "${SOURCE_DATE_EPOCH:=$(date -d "$(sed -n 's/^ -- .*>  //p' deploy/debian/changelog | head -n 1)" +%s)}"
    export SOURCE_DATE_EPOCH
    tools/root.sh make "$root" $SUITE
    rm -rf "$root/src" "$root/out"
    tools/tree.sh "$root/src"
    for step in libraries tarball; do
        if ! tools/root.sh enter "$root" "/src/deploy/tarball.sh --$step" >"$folder/$step.log" 2>&1; then
            tail -n 30 "$folder/$step.log" >&2
            echo "tarball: the whole of what was said is in $folder/$step.log" >&2
            exit 1
        fi
    done
    rm -f "$folder"/*.tar.xz
    cp "$root"/out/*.tar.xz "$folder/"
    ls "$folder"/*.tar.xz
    ;;
esac
