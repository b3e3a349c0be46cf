// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

// TestSurveyAndSweepFindEachSpelling has a namespace in database 3 whose name a
// serializer writes in another way. Another spelling of a name is another lock,
// and so is the same name in database 0.
func TestSurveyAndSweepFindEachSpelling(t *testing.T) {
	spellings := []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}
	for _, namespace := range []string{"stock", `st"ock`, `st\ock`, "st\U0001f512ock", ""} {
		for _, e := range spellings {
			w := redistest.New(t)
			own := ""
			for _, spelled := range spellings {
				d := dialect.Template()
				d.KeyEncoding, d.ValueEncoding = spelled, e
				key, err := d.EncodeKey(namespace + "1")
				if err != nil {
					t.Fatal(err)
				}
				value, err := d.EncodeValue(d.Tombstone())
				if err != nil {
					t.Fatal(err)
				}
				for _, database := range []int{0, 3} {
					_ = w.Mini.DB(database).Set(key, value)
				}
				if spelled == e {
					own = key
					_ = w.Mini.DB(3).Set(legacy.MarkKey(key), "46pp_t56wMdRpwZ1BglSEg "+value+" tag")
				}
			}
			mux, err := wire.New(w.Pool(redis.DialDatabase(3)), wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d := dialect.Template()
			d.KeyEncoding, d.ValueEncoding = e, e
			s, err := newSurveyor(mux, &facts{namespace: namespace, dialect: d, now: w.ServerNow()})
			if err != nil {
				t.Fatal(err)
			}
			found, err := s.look(bg)
			found.strangers(nil)
			keys := int64(1)
			if namespace == "" && e == dialect.Plain {
				keys = 3
			}
			if err != nil || found.Tombstones != keys || found.Keys != keys || found.Strangers.count != 1 {
				t.Errorf("%s %q: %+v, %v", e, namespace, found, err)
			}
			swept, err := s.sweep(bg, true)
			if err != nil || swept.Deleted != keys || w.Mini.DB(3).Exists(own) || !w.Mini.DB(0).Exists(own) {
				t.Errorf("%s %q: swept %+v, %v", e, namespace, swept, err)
			}
			_ = mux.Close()
		}
	}
}
