// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestReadOrdersFindsColumnsByName(t *testing.T) {
	want := []Order{{"mug, blue", 2}, {"tee", 12}}
	for _, text := range []string{
		"sku,quantity\n\"mug, blue\",2\ntee,12\n",
		"\ufeffsku,quantity\r\n\"mug, blue\",2\r\ntee,12\r\n",
		"when,Quantity, SKU \n09:00,2,\"mug, blue\"\n\n09:01, 12,  tee\n",
	} {
		got, err := ReadOrders(strings.NewReader(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestReadOrdersNamesTheBrokenLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "empty",
		"sku,quantity\n":                         "no order",
		"article,count\na,1\n":                   `line 1: the columns are "article,count"`,
		"sku,quantity\na,1\nb,two\n":             `line 3: quantity "two"`,
		"sku,quantity\na,0\n":                    `line 2: quantity "0"`,
		"sku,quantity\na,-4\n":                   `line 2: quantity "-4"`,
		"sku,quantity\na,1.5\n":                  `line 2: quantity "1.5"`,
		"sku,quantity\na,1000001\n":              "line 2: quantity",
		"sku,quantity\na,99999999999999999999\n": "line 2: quantity",
		"sku,quantity\n\n\n ,1\n":                "line 4: the sku is empty",
		"sku,quantity\na,1\na\n":                 "line 3: wrong number of fields",
		"sku,quantity\na,1\nb,1,2\n":             "line 3: wrong number of fields",
		"sku,quantity\n\"a,1\n":                  "line 2, ",
		"sku,quantity\na\xff,1\n":                "line 2: the sku",
		"sku,quantity\na\x00b,1\n":               "line 2: the sku",
		"sku,quantity\n" + strings.Repeat("a", 201) + ",1\n": "line 2: the sku is longer",
	} {
		got, err := ReadOrders(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want an error with %q", text, err, want)
		}
		if got != nil {
			t.Errorf("%.40q: %d orders and an error", text, len(got))
		}
	}
}

func FuzzOrdersAreReadBackAsWritten(f *testing.F) {
	f.Add("sku,quantity\na,1\n")
	f.Add(sampleOrders[:200])
	f.Add("\ufeffquantity,sku\n1,\"x\"\"y\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		orders, err := ReadOrders(strings.NewReader(text))
		if err != nil {
			if orders != nil {
				t.Fatalf("%d orders and the error %v", len(orders), err)
			}
			return
		}
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Write([]string{"sku", "quantity"})
		for _, o := range orders {
			w.Write([]string{o.SKU, strconv.Itoa(o.Quantity)})
		}
		w.Flush()
		again, err := ReadOrders(&b)
		if err != nil || !slices.Equal(again, orders) {
			t.Fatalf("%v read back as %v, %v", orders, again, err)
		}
	})
}
