package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Row is one object of a summary, whose keys keep their order.
type Row struct {
	keys   []string
	values map[string]any
}

// RowOf makes a Row of what JSON makes an object of.
func RowOf(v any) (r Row, err error) {
	p, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(p, &r)
	}
	return r, err
}

// UnmarshalJSON reads an object.
func (r *Row) UnmarshalJSON(p []byte) error {
	d := json.NewDecoder(bytes.NewReader(p))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want an object, not %s: %w", p, errors.Join(err, io.ErrUnexpectedEOF))
	}
	r.keys, r.values = nil, map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("want a key, not %v", t)
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		r.keys = append(r.keys, key)
		r.values[key] = v
	}
	_, err := d.Token()
	return err
}

// Num is a number, 0 where there is none.
func (r Row) Num(key string) float64 {
	n, _ := r.values[key].(float64)
	return n
}

// Int is a number of things.
func (r Row) Int(key string) int { return int(r.Num(key)) }

// Str is a text; that of numbers and truth values, too.
func (r Row) Str(key string) string {
	switch v := r.values[key].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// name is how tables name the row's system.
func (r Row) name() string {
	if r.Str("recorded") == "true" {
		return r.Str("system") + recorded
	}
	return r.Str("system")
}

// Has tells whether the row has a value for the key.
func (r Row) Has(key string) bool { _, ok := r.values[key]; return ok }
