package index_test

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

// capability is a version 2 security.capability that gives and raises
// CAP_NET_RAW.
const capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func TestCF07_Xattrs(t *testing.T) {
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	with := func(h hdr, x map[string]string) hdr { h.Xattrs = x; return h }
	many := map[string]string{}
	for i := range 12 {
		many[fmt.Sprintf("user.%02d", i)] = strings.Repeat(string(rune('a'+i)), 200)
	}
	bin := with(file("bin", string(sleep)), map[string]string{"security.capability": capability})
	bin.Mode = 0o755
	d := same(t, layer(bin,
		with(file("bytes", "x"), map[string]string{"user.k": "v\xff\x00z", "user.empty": "", "trusted.t": "no"}),
		with(dir("d"), map[string]string{"user.d": "on a directory"}),
		with(file("many", "x"), many),
		with(slink("l", "bytes"), map[string]string{"user.l": "not on links"}),
		with(file("more", ""), map[string]string{"user.k": "v", "nosuch.k": "v", "user.long" + strings.Repeat("n", 246): "v"}),
	))
	if n, err := unix.Lgetxattr(filepath.Join(d, "bytes"), "user.empty", nil); n != 0 || err != nil {
		t.Errorf("user.empty: %d, %v", n, err)
	}
	nullCapability(t, filepath.Join(d, "bin"))
}

// nullCapability runs a program as nobody and looks at its capabilities.
func nullCapability(t *testing.T, p string) {
	t.Helper()
	cmd := exec.Command(p, "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for q := filepath.Dir(p); q != "/tmp" && q != "/"; q = filepath.Dir(q) {
		if fi, err := os.Stat(q); err == nil && fi.Mode().Perm()&1 == 0 {
			_ = os.Chmod(q, 0o755) // the test's directories are the owner's only
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "CapEff:\t0000000000002000\n") {
		t.Errorf("no CAP_NET_RAW: %v\n%s", err, status)
	}
}

func TestXattrsOfLinksAndReplacements(t *testing.T) {
	x := func(h hdr, kv ...string) hdr {
		h.Xattrs = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			h.Xattrs[kv[i]] = kv[i+1]
		}
		return h
	}
	same(t, layer(
		x(file("a", ""), "security.capability", capability, "user.a", "1"), link("b", "a"), // chown drops the capability
		x(file("c", ""), "security.capability", capability), x(link("d", "c"), "user.d", "2", "security.capability", capability),
		x(dir("e"), "user.e", "1", "user.f", "1"), x(dir("e"), "user.e", "2"), // both stay
		x(file("f", ""), "user.old", "1"), file("f", ""),
	))
	for name, l := range map[string][]byte{
		"empty user":      layer(x(file("f", ""), "user.", "v")),
		"empty name":      layer(x(file("f", ""), "", "v")),
		"long name":       layer(x(file("f", ""), "user."+strings.Repeat("n", 251), "v")),
		"bad capability":  layer(x(file("f", ""), "security.capability", "short")),
		"too long a file": layer(file(strings.Repeat("n", 256), "")),
	} {
		t.Run(name, func(t *testing.T) { refused(t, l) })
	}
}

func TestCF08_Names(t *testing.T) {
	names := []string{"caf\xe9", "日本語", "new\nline", "sp ace\t", "back\\slash", strings.Repeat("a", 255), strings.Repeat("日", 85), "\x01", "-", "!", "..."}
	entries := []hdr{dir("all")}
	for _, n := range names {
		entries = append(entries, file(n, n), file("all/"+n, n))
	}
	d := same(t, layer(entries...))
	got := map[string]bool{}
	list, err := os.ReadDir(filepath.Join(d, "all"))
	for _, e := range list {
		got[e.Name()] = true
	}
	for _, n := range names {
		if !got[n] {
			t.Errorf("getdents does not return %q: %v", n, err)
		}
	}
	for _, long := range []hdr{file("d/"+strings.Repeat("a", 256), ""), file(strings.Repeat("b", 256)+"/x", ""), slink("l/"+strings.Repeat("c", 256), "x")} {
		if msg := refused(t, layer(long)); !strings.Contains(msg, long.Name[:200]) {
			t.Errorf("%s: the entry is not named", msg)
		}
	}
}

func TestCF10_Times(t *testing.T) {
	at := func(h hdr, sec, ns int64) hdr { h.Mtime = time.Unix(sec, ns); return h }
	d := same(t, layer(
		at(dir("d"), 1234567890, 0), at(file("d/f", "x"), 1600000000, 123456789), at(slink("d/l", "f"), 1500000000, 5),
		at(file("zero", ""), 0, 0), at(file("negative", ""), -100, 0), at(file("2200", ""), 7258118400, 0), at(file("2300", ""), 10413792000, 0),
		at(file("first", "x"), 1, 0), at(link("second", "first"), 2, 0),
	))
	if st := lstat(t, d, "negative"); st.Mtim.Sec != 0 {
		t.Errorf("negative: %v", st.Mtim)
	}
	if st := lstat(t, d, "2200"); st.Mtim.Sec != 7258118400 {
		t.Errorf("2200: %v", st.Mtim)
	}
	if st := lstat(t, d, "d/l"); st.Mtim != (syscall.Timespec{Sec: 1500000000, Nsec: 5}) {
		t.Errorf("d/l: %v", st.Mtim)
	}
}

func TestCF18_Owners(t *testing.T) {
	h := func(name string, kind byte, mode, uid, gid int64) hdr {
		return hdr{Name: name, Type: kind, Mode: mode, UID: uid, GID: gid}
	}
	root := h("root", tar.TypeReg, 0o644, 777, 0)
	root.Uname = "root"
	d := same(t, layer(
		h("suid", tar.TypeReg, 0o4755, 0, 0), h("sgid", tar.TypeReg, 0o2755, 0, 42), h("both", tar.TypeReg, 0o6711, 1000, 1000),
		h("sticky", tar.TypeDir, 0o1777, 0, 0), h("sgiddir", tar.TypeDir, 0o2775, 0, 42), file("sgiddir/child", ""), dir("sgiddir/sub"),
		h("one", tar.TypeReg, 0o001, 0, 0), h("large", tar.TypeReg, 0o644, 3000000000, 4000000000), h("keep", tar.TypeReg, 0o644, 1<<32-1, 1<<32-1), root,
		h("sgiddir/keep", tar.TypeReg, 0o644, 1<<32-1, 1<<32-1),
	))
	if st := lstat(t, d, "large"); st.Uid != 3000000000 || st.Gid != 4000000000 {
		t.Errorf("large: %d:%d", st.Uid, st.Gid)
	}
	if st := lstat(t, d, "root"); st.Uid != 777 {
		t.Errorf("root: uid %d", st.Uid)
	}
}

func TestCF19_SpecialFiles(t *testing.T) {
	dev := func(name string, kind byte, major, minor, mode int64) hdr {
		return hdr{Name: name, Type: kind, Major: major, Minor: minor, Mode: mode}
	}
	d := same(t, layer(file("gone", "lower"), dir("gonedir"), file("gonedir/x", "")), layer(
		dev("null", tar.TypeChar, 1, 3, 0o666), dev("disk", tar.TypeBlock, 8, 300, 0o660), dev("pipe", tar.TypeFifo, 0, 0, 0o600),
		dev("gone", tar.TypeChar, 0, 0, 0o600), dev("gonedir", tar.TypeChar, 0, 0, 0o600), dev("blockzero", tar.TypeBlock, 0, 0, 0o600),
		dev("wide", tar.TypeChar, 0xfff, 0xfffff, 0o600), dev("wider", tar.TypeChar, 0x1001, 0x1ffffe, 0o600),
	))
	if st := lstat(t, d, "disk"); st.Mode != syscall.S_IFBLK|0o660 || unix.Major(st.Rdev) != 8 || unix.Minor(st.Rdev) != 300 {
		t.Errorf("disk: %+v", st)
	}
	for _, name := range []string{"gone", "gonedir"} {
		if _, err := os.Lstat(filepath.Join(d, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused(t, layer(dev("socket", 's', 0, 0, 0o600)))
	refused(t, layer(dev("huge", tar.TypeChar, 1<<40, 0, 0o600)))
}

func TestGlobalHeader(t *testing.T) {
	g := hdr{Name: "pax_global_header", Type: 'g', Body: indextest.Record("comment", strings.Repeat("c", 600))}
	same(t, layer(file("pax_global_header", "removed by the header of its name"), file("a", "1"), g, file("b", "2"), link("c", "b")))
}
