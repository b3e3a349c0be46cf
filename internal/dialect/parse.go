// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// wire is Dialect's JSON form. Its fields hide none of the inner ones, which
// are marked "-".
type wire struct {
	*fields
	Slack duration `json:"slack"`
	Lease duration `json:"lease"`
	Poll  duration `json:"poll"`
	Wait  duration `json:"wait"`
}

// fields has Dialect's fields and none of its methods, so that encoding does
// not recurse.
type fields Dialect

// duration is written as Go writes it: "1m30s". A bare number is refused, since
// its unit is not stated.
type duration time.Duration

// MarshalText writes Go's own form.
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads Go's own form.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// MarshalJSON writes the form that Parse reads.
func (d Dialect) MarshalJSON() ([]byte, error) {
	f := fields(d)
	return json.Marshal(wire{&f, duration(d.Slack), duration(d.Lease), duration(d.Poll), duration(d.Wait)})
}

// UnmarshalJSON reads what MarshalJSON writes, strictly: an unknown or repeated
// field is an error that names it. It does not validate; Parse does.
func (d *Dialect) UnmarshalJSON(data []byte) error {
	if err := refuseTwice(data); err != nil {
		return err
	}
	var own Dialect
	if err := own.overlay(data); err != nil {
		return err
	}
	*d = own
	return nil
}

// overlay changes the fields that data names and keeps the rest.
func (d *Dialect) overlay(data []byte) error {
	f := fields(*d)
	w := wire{&f, duration(d.Slack), duration(d.Lease), duration(d.Poll), duration(d.Wait)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return err
	}
	*d = Dialect(f)
	d.Slack, d.Lease = time.Duration(w.Slack), time.Duration(w.Lease)
	d.Poll, d.Wait = time.Duration(w.Poll), time.Duration(w.Wait)
	return nil
}

// refuseTwice refuses fields that occur twice. The decoder would silently keep
// the last one. It also accepts names in any case, so "Unit" next to "unit" is
// the same mistake.
func refuseTwice(data []byte) error {
	var pairs map[string]json.RawMessage
	if err := json.Unmarshal(data, &pairs); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name := fmt.Sprint(token)
		if seen[name] || name != string(bytes.ToLower([]byte(name))) {
			return fmt.Errorf("json: field %q is given twice or not in lower case", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// Parse reads a user's own dialect from JSON and validates it. A field "base"
// may name a preset that the other fields change. The dialect's name must
// differ from all presets' names. With an error the Dialect is zero.
func Parse(data []byte) (Dialect, error) {
	d, err := parse(data)
	if err == nil {
		err = d.check()
	}
	if err == nil {
		if preset, lookupErr := Lookup(d.Name); lookupErr == nil && preset != d {
			err = fmt.Errorf("field name: %q is a preset, and this differs from it", d.Name)
		}
	}
	if err != nil {
		return Dialect{}, fmt.Errorf("dialect: %w", err)
	}
	return d, nil
}

func parse(data []byte) (Dialect, error) {
	if err := refuseTwice(data); err != nil {
		return Dialect{}, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return Dialect{}, err
	}
	var own Dialect
	if raw, ok := all["base"]; ok {
		var base string
		if err := json.Unmarshal(raw, &base); err != nil {
			return Dialect{}, fmt.Errorf("field base: %w", err)
		}
		preset, err := Lookup(base)
		if err != nil {
			return Dialect{}, fmt.Errorf("field base: %w", err)
		}
		own = preset
		own.Name, own.Library = "", ""
		delete(all, "base")
		if data, err = json.Marshal(all); err != nil {
			return Dialect{}, err
		}
	}
	return own, own.overlay(data)
}

// ParseFrom reads a dialect file of at most 64 KiB.
func ParseFrom(r io.Reader) (Dialect, error) {
	const most = 64 << 10
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return Dialect{}, fmt.Errorf("dialect: %w", err)
	}
	if len(data) > most {
		return Dialect{}, fmt.Errorf("dialect: the file is longer than %d bytes", most)
	}
	return Parse(data)
}
