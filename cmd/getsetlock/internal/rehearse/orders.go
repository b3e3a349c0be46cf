// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Order asks for a quantity of one product.
type Order struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

const (
	greatestQuantity = 1_000_000
	longestSKU       = 200
	mostOrders       = 1_000_000
)

//go:embed orders-sample.csv
var sampleOrders string

// SampleOrders returns the built-in orders.
func SampleOrders() []Order {
	orders, err := ReadOrders(strings.NewReader(sampleOrders))
	if err != nil {
		panic("rehearse: the embedded orders: " + err.Error())
	}
	return orders
}

// ReadOrders reads a CSV file. Its first line names the columns; sku and
// quantity must be among them, in any order and case. Other columns are
// ignored. Errors name the line.
func ReadOrders(r io.Reader) ([]Order, error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace = true
	in.ReuseRecord = true
	sku, quantity, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	var orders []Order
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		if len(orders) == mostOrders {
			return nil, fmt.Errorf("line %d: more than %d orders", line, mostOrders)
		}
		o, err := readOrder(record[sku], record[quantity])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		orders = append(orders, o)
	}
	if len(orders) == 0 {
		return nil, errors.New("no order after the line that names the columns")
	}
	return orders, nil
}

func readHeader(in *csv.Reader) (sku, quantity int, err error) {
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return 0, 0, errors.New("empty: the first line must name the columns sku and quantity")
	}
	if err != nil {
		return 0, 0, err
	}
	sku, quantity = -1, -1
	for i, name := range header {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff") // spreadsheets put it in front of UTF-8
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "sku":
			sku = i
		case "quantity":
			quantity = i
		}
	}
	if sku < 0 || quantity < 0 {
		return 0, 0, fmt.Errorf("line 1: the columns are %.200q; sku and quantity must be among them",
			strings.Join(header, ","))
	}
	return sku, quantity, nil
}

func readOrder(sku, quantity string) (Order, error) {
	sku, quantity = strings.TrimSpace(sku), strings.TrimSpace(quantity)
	switch {
	case sku == "":
		return Order{}, errors.New("the sku is empty")
	case len(sku) > longestSKU:
		return Order{}, fmt.Errorf("the sku is longer than %d bytes", longestSKU)
	case !utf8.ValidString(sku) || strings.ContainsFunc(sku, unicode.IsControl):
		return Order{}, fmt.Errorf("the sku %q is not plain text", sku)
	}
	n, err := strconv.Atoi(quantity)
	if err != nil || n < 1 || n > greatestQuantity {
		return Order{}, fmt.Errorf("quantity %.40q is not a whole number from 1 to %d", quantity,
			greatestQuantity)
	}
	return Order{SKU: sku, Quantity: n}, nil
}
