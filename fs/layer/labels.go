package layer

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// FromLabels reads the annotations of a layer, or the labels of a snapshot,
// which have the same keys; other keys are ignored. It checks that the sections
// lie in the layer and are at most block.MaxSection bytes. The error matches
// errdefs.ErrNotFound when the layer is not of this format, and
// errdefs.ErrInvalidArgument, with key and value, when it claims to be but the
// version is unknown or a value is malformed.
func FromLabels(l map[string]string) (Info, error) {
	version, ok := l[keyVersion]
	if !ok {
		for _, k := range []string{keyDigest, keySize, keyMetaDigest, keyMetaRange, keyImageDigest, keyImageRange} {
			if _, found := l[k]; found {
				return Info{}, fmt.Errorf("annotation %s without %s: %w", k, keyVersion, errdefs.ErrInvalidArgument)
			}
		}
		return Info{}, fmt.Errorf("annotation %s: %w", keyVersion, errdefs.ErrNotFound)
	}
	if version != strconv.Itoa(Version) {
		return Info{}, invalid(keyVersion, version, fmt.Sprintf("this reader knows %d", Version))
	}
	i, err := blobOf(l[keyDigest], l[keySize])
	if err != nil {
		return Info{}, err
	}
	i.Version, i.Start = Version, l[LabelStart] == "true"
	if i.Meta, err = i.section(l, keyMetaDigest, keyMetaRange); err != nil {
		return Info{}, err
	}
	_, withDigest := l[keyImageDigest]
	_, withRange := l[keyImageRange]
	if !withDigest && !withRange {
		if above, found := l[LabelAbove]; found {
			if i.Above, err = parseAbove(above); err != nil {
				return Info{}, err
			}
		}
		return i, nil
	}
	image, err := i.section(l, keyImageDigest, keyImageRange)
	if err != nil {
		return Info{}, err
	}
	if image.Offset < i.Meta.Offset+int64(i.Meta.Size) {
		return Info{}, invalid(keyImageRange, l[keyImageRange], "begins before the metadata section ends")
	}
	i.Image = &image
	return i, nil
}

// blobOf reads what is said of a layer's blob.
func blobOf(sum, size string) (i Info, err error) {
	if _, err := parseSum(sum); err != nil {
		return i, invalid(keyDigest, sum, err.Error())
	}
	i.Digest = digest.Digest(sum)
	if i.Size, err = parseNumber(size); err != nil || i.Size == 0 {
		return i, invalid(keySize, size, "want a positive decimal number")
	}
	return i, nil
}

// section reads the two annotations of a section.
func (i Info) section(l map[string]string, keySum, keyRange string) (block.Ref, error) {
	sum, err := parseSum(l[keySum])
	if err != nil {
		return block.Ref{}, invalid(keySum, l[keySum], err.Error())
	}
	first, second, _ := strings.Cut(l[keyRange], "-")
	offset, err := parseNumber(first)
	if err != nil {
		return block.Ref{}, invalid(keyRange, l[keyRange], "want offset-size")
	}
	size, err := parseNumber(second)
	if err != nil {
		return block.Ref{}, invalid(keyRange, l[keyRange], "want offset-size")
	}
	if size < sectionPrefix || size > block.MaxSection {
		return block.Ref{}, invalid(keyRange, l[keyRange], fmt.Sprintf("want a size between %d and %d", sectionPrefix, block.MaxSection))
	}
	if size > i.Size || offset > i.Size-size {
		return block.Ref{}, invalid(keyRange, l[keyRange], fmt.Sprintf("the layer has %d bytes", i.Size))
	}
	return block.Ref{Blob: i.Digest, Number: block.Section, Offset: offset, Size: int(size), Sum: sum}, nil
}

// parseNumber reads a decimal number that fits in an int64, in its only
// spelling: no sign, no leading zero.
func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = strconv.ErrSyntax
	}
	return int64(n), err
}

// parseSum reads "sha256:" and 64 lower-case hexadecimal digits.
func parseSum(s string) (block.Sum, error) {
	var sum block.Sum
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(digits) != hex.EncodedLen(len(sum)) || strings.ToLower(digits) != digits {
		return sum, fmt.Errorf("want sha256: and 64 lower-case hexadecimal digits: %w", errdefs.ErrInvalidArgument)
	}
	if _, err := hex.Decode(sum[:], []byte(digits)); err != nil {
		return sum, fmt.Errorf("want sha256: and 64 lower-case hexadecimal digits: %w", errdefs.ErrInvalidArgument)
	}
	return sum, nil
}

// invalid is the error for an annotation; a long value is cut in the text.
func invalid(key, value, why string) error {
	if len(value) > 100 {
		value = value[:100] + "..."
	}
	return fmt.Errorf("annotation %s: %q: %s: %w", key, value, why, errdefs.ErrInvalidArgument)
}
