package index_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// victim is a layer with one of everything, and its image.
func victim(t testing.TB) (layer, img []byte) {
	t.Helper()
	var l indextest.Tar
	l.Add(hdr{Name: "x", Body: strings.Repeat("x", 3000), Xattrs: map[string]string{"user.k": "value", "user.l": ""}}, dir("d"), dir("d/e"), file("d/e/f", "f"),
		link("d/h", "x"), slink("l", "d/e/f"), slink("long", strings.Repeat("t", 1000)), hdr{Name: "p", Type: '6'}, hdr{Name: "c", Type: '3', Major: 1, Minor: 3}, file("empty", ""))
	for i := range 50 {
		l.Add(file(fmt.Sprintf("many/%040d", i), "many"))
	}
	b, _ := sparse("1.0")
	layer = append(l.Bytes()[:l.Len()], b...)
	img, err := fromTar(t, layer)[0].Encode(lengths(layer))
	if err != nil {
		t.Fatal(err)
	}
	return layer, img
}

// seal corrects the checksum of a damaged superblock.
func seal(img []byte) {
	if len(img) < 1536 {
		return
	}
	clear(img[1028:1032])
	binary.LittleEndian.PutUint32(img[1028:], ^crc32.Checksum(img[1024:1536], crc32.MakeTable(crc32.Castagnoli)))
}

// inodeOf finds the inode of a name in the root, and the offset of its dirent.
func inodeOf(t *testing.T, img []byte, name string) (inode, dirent int) {
	t.Helper()
	le := binary.LittleEndian
	root := int(le.Uint16(img[1038:])) * 32
	at, size := root+64, int(le.Uint64(img[root+8:]))
	if size >= 512 || le.Uint16(img[root:])>>1 != 2 {
		t.Fatal("root is not inline")
	}
	for i := 0; i < int(le.Uint16(img[at+8:])); i += 12 {
		off := int(le.Uint16(img[at+i+8:]))
		if strings.HasPrefix(string(img[at+off:at+size]), name) {
			return int(le.Uint64(img[at+i:])) * 32, at + i
		}
	}
	t.Fatalf("no %q in the root", name)
	return 0, 0
}

func TestSE06_HostileIndex(t *testing.T) {
	layer, good := victim(t)
	le := binary.LittleEndian
	x, xd := inodeOf(t, good, "x")
	d, dd := inodeOf(t, good, "d")
	l, _ := inodeOf(t, good, "l")
	root := int(le.Uint16(good[1038:])) * 32
	name := root + 64 + int(le.Uint16(good[xd+8:]))
	chunk := x + 64 + 12 + int(le.Uint16(good[x+2:])-1)*4
	chunk = (chunk + 7) / 8 * 8
	super := func(off int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[1024+off:], v) } }
	u64 := func(off int, v uint64) func([]byte) { return func(b []byte) { le.PutUint64(b[off:], v) } }
	u32 := func(off int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[off:], v) } }
	u16 := func(off int, v uint16) func([]byte) { return func(b []byte) { le.PutUint16(b[off:], v) } }
	u8 := func(off int, v byte) func([]byte) { return func(b []byte) { b[off] = v } }
	for what, damage := range map[string]func([]byte){
		"magic":                       super(0, 1),
		"unknown compatible feature":  super(8, 0xff),
		"unknown feature":             super(80, 0x8c),
		"no chunked files":            super(80, 8),
		"block size":                  u8(1024+12, 12),
		"extended superblock":         u8(1024+13, 1),
		"root 0":                      u16(1024+14, 0),
		"root outside":                u16(1024+14, 0xffff),
		"inodes 2^32":                 u64(1024+16, 1<<32),
		"too many inodes":             u64(1024+16, le.Uint64(good[1024+16:])+1),
		"blocks":                      super(36, 1),
		"metadata elsewhere":          super(40, 1),
		"shared attributes":           super(44, 1),
		"volume name":                 super(76, 0x41414141),
		"two devices":                 u16(1024+86, 2),
		"no device":                   u16(1024+86, 0),
		"device table elsewhere":      u16(1024+88, 13),
		"directory blocks":            u8(1024+90, 1),
		"packed inode":                u64(1024+96, 64),
		"device too short":            u32(1536+64, 1),
		"device too long":             u32(1536+64, 1<<31),
		"mapped device":               u32(1536+68, 1),
		"inode format":                u16(x, 0x1009),
		"compact inode":               u16(x, 8),
		"compressed file":             u16(x, 3),
		"mode 0":                      u16(x+4, 0),
		"socket":                      u16(x+4, 0o140644),
		"directory as a file":         u16(x+4, 0o40755),
		"file as a directory":         u16(d+4, 0o100644),
		"size beyond the chunks":      u64(x+8, 1<<40),
		"size 2^63":                   u64(x+8, 1<<63),
		"size 2^64-1":                 u64(x+8, 1<<64-1),
		"directory of 2^40 bytes":     u64(d+8, 1<<40),
		"directory of 0 bytes":        u64(d+8, 0),
		"link of 0 bytes":             u64(l+8, 0),
		"link of 5000 bytes":          u64(l+8, 5000),
		"NUL in a link":               u8(l+64, 0),
		"chunk format":                u32(x+16, 0x40),
		"no chunk indexes":            u32(x+16, 3),
		"small chunks":                u32(x+16, 0x20),
		"mtime before 1970":           u64(x+32, 1<<63),
		"nanoseconds":                 u32(x+40, 1e9),
		"nlink 0":                     u32(x+44, 0),
		"nlink 1 of two names":        u32(x+44, 1),
		"nlink of a directory":        u32(d+44, 7),
		"attributes 2^16":             u16(x+2, 0xffff),
		"no attributes but a header":  u16(x+2, 1),
		"shared attribute":            u8(x+64+4, 1),
		"attribute name length":       u8(x+64+12, 255),
		"attribute value length":      u16(x+64+14, 0xffff),
		"attribute index 0":           u8(x+64+13, 0),
		"trusted attribute":           u8(x+64+13, 4),
		"long prefix":                 u8(x+64+13, 0x81),
		"chunk of device 0":           u16(chunk+2, 0),
		"chunk of device 2":           u16(chunk+2, 2),
		"chunk outside the device":    u32(chunk+4, 1<<31),
		"chunk at the end":            u32(chunk+4, uint32(len(layer)/512)-1),
		"chunk's high bits":           u16(chunk, 1),
		"dirent outside":              u64(xd, 1<<40),
		"dirent 2^64-1":               u64(xd, 1<<64-1),
		"dirent into the superblock":  u64(xd, 32),
		"dirent type":                 u8(xd+10, 2),
		"dirent reserved":             u8(xd+11, 1),
		"names start at 0":            u16(root+64+8, 0),
		"names start at 5":            u16(root+64+8, 5),
		"names start outside":         u16(root+64+8, 600),
		"name offset back":            u16(xd+8, 12),
		"name offset outside":         u16(xd+8, 511),
		"name with /":                 u8(name, '/'),
		"name with NUL":               u8(name, 0),
		"name ..":                     u8(name, '.'),
		"name out of order":           u8(name, 'A'),
		"directory twice":             u64(xd, uint64(d/32)),
		"directory in itself":         func(b []byte) { le.PutUint64(b[d+64+2*12:], uint64(d/32)) },
		"root in the root":            func(b []byte) { le.PutUint64(b[dd:], uint64(root/32)) },
		". is another":                func(b []byte) { le.PutUint64(b[d+64:], uint64(root/32)) },
		".. is another":               func(b []byte) { le.PutUint64(b[d+64+12:], uint64(d/32)) },
		"inode across blocks":         func(b []byte) { le.PutUint64(b[xd:], uint64(x/512*512+480)/32) },
		"overlapping inodes":          func(b []byte) { le.PutUint64(b[xd:], uint64(x/32)+1) },
		"inline content over a block": u64(d+8, 500),
	} {
		img := bytes.Clone(good)
		damage(img)
		seal(img)
		start := time.Now()
		if err := index.Check(img, lengths(layer)); !errors.Is(err, errdefs.ErrDataLoss) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := index.Decode(img, lengths(layer)); !errors.Is(err, errdefs.ErrDataLoss) {
			t.Errorf("%s, decoded: %v", what, err)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s: took %v", what, d)
		}
	}
	for _, n := range []int{0, 1, 1023, 1024, 1536, 2048, len(good) / 2, len(good) - 512, len(good) - 1} {
		if err := index.Check(good[:n], lengths(layer)); err == nil {
			t.Errorf("%d of %d bytes pass", n, len(good))
		}
	}
	for _, devices := range [][]int64{nil, {1}, {int64(len(layer)), 5}, {-1}, make([]int64, 70000)} {
		if err := index.Check(good, devices); err == nil {
			t.Errorf("%d devices pass", len(devices))
		}
	}
	if err := index.Check(good, lengths(layer)); err != nil {
		t.Error(err)
	}
}

// TestSE06_AcceptedIndexesMount damages an image at random. What Check still
// accepts must mount, and show what Decode says.
func TestSE06_AcceptedIndexesMount(t *testing.T) {
	layer, good := victim(t)
	device := indextest.Files(t, layer)
	seed := env("FAASNET_INDEX_SEED", uint64(time.Now().UnixNano()))
	r := rand.New(rand.NewPCG(seed, 6))
	mounted := 0
	for i := 0; i < 20000 && mounted < 100; i++ {
		img := bytes.Clone(good)
		for range 1 + r.IntN(2) {
			img[1024+r.IntN(len(img)-1024)] ^= 1 << r.IntN(8)
		}
		seal(img)
		tree, err := index.Decode(img, lengths(layer))
		if cerr := index.Check(img, lengths(layer)); (cerr == nil) != (err == nil) {
			t.Fatalf("FAASNET_INDEX_SEED=%d %d: Decode: %v, Check: %v", seed, i, err, cerr)
		}
		if err != nil || bytes.Equal(img, good) {
			continue
		}
		mounted++
		t.Run(fmt.Sprintf("FAASNET_INDEX_SEED=%d %d", seed, i), func(t *testing.T) { compareWithMount(t, tree, indextest.EROFS(t, img, device...)) })
	}
	if mounted == 0 {
		t.Error("every damaged image is refused")
	}
}

func compareWithMount(t *testing.T, tree *index.Tree, d string) {
	t.Helper()
	seen := map[string]bool{}
	err := tree.Walk(func(f index.File) error {
		seen[f.Path] = true
		var st unix.Stat_t
		p := filepath.Join(d, f.Path)
		if err := unix.Lstat(p, &st); err != nil {
			return fmt.Errorf("%q: %w", f.Path, err)
		}
		size := f.Size
		if f.IsDir() {
			size = st.Size
		}
		if st.Mode != f.Mode || st.Uid != f.UID || st.Gid != f.GID || st.Mtim.Sec != f.Sec || st.Mtim.Nsec != int64(f.Nsec) || st.Size != size || st.Ino == 0 {
			t.Errorf("%q: mount %+v, tree %+v", f.Path, st, f.Attr)
		}
		if f.IsSymlink() {
			if target, err := os.Readlink(p); target != f.Target || err != nil {
				t.Errorf("%q: %q, %v, want %q", f.Path, target, err, f.Target)
			}
		}
		for _, x := range f.Xattrs {
			buf := make([]byte, 1<<16)
			// Kernels check what is in an ACL or a capability when it is read.
			n, err := unix.Lgetxattr(p, x.Name, buf)
			if strings.HasPrefix(x.Name, "user.") && (err != nil || string(buf[:n]) != x.Value) {
				t.Errorf("%q: %s=%q, %v, want %q", f.Path, x.Name, buf[:max(n, 0)], err, x.Value)
			}
		}
		if f.IsRegular() {
			if _, err := indextest.Sum(p); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = filepath.WalkDir(d, func(p string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(d, p); !seen[rel] {
			t.Errorf("%q is only in the mount", rel)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Shared content must not make a small image a large tree: 8,000 links of 4 KiB
// each are in 1 MiB.
func TestSE06_SharedContentIsRefused(t *testing.T) {
	var l indextest.Tar
	for i := range 8000 {
		l.Add(slink(fmt.Sprint(i), strings.Repeat("t", 4000)))
	}
	b := l.Bytes()
	img, err := fromTar(t, b)[0].Encode(lengths(b))
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	// All links point at the content of one, and the rest is cut off.
	var first uint32
	end := 0
	for at := 2048; at+64 <= len(img); at += 32 {
		if le.Uint16(img[at+4:]) != 0o120777 || le.Uint64(img[at+8:]) != 4000 || le.Uint16(img[at:]) != 1 {
			continue
		}
		if first == 0 {
			first = le.Uint32(img[at+16:])
		}
		le.PutUint32(img[at+16:], first)
		end = at
	}
	if first == 0 || int(first)*512 < end {
		t.Fatal("no links found")
	}
	img = img[:(int(first)+8)*512+200*512]
	le.PutUint32(img[1024+36:], uint32(len(img)/512))
	seal(img)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := index.Check(img, lengths(b)); err == nil {
		t.Error("accepted")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d MiB allocated", n>>20)
	}
}
