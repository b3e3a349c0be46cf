// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	_ "embed"
	"strconv"
	"strings"
)

// Order asks for a quantity of one product.
type Order struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

//go:embed orders-sample.csv
var sampleOrders string

// SampleOrders returns the orders of the embedded file.
func SampleOrders() (orders []Order) {
	_, lines, _ := strings.Cut(sampleOrders, "\n") // without the names of the columns
	for line := range strings.Lines(lines) {
		sku, quantity, _ := strings.Cut(strings.TrimSpace(line), ",")
		orders = append(orders, Order{sku, must(strconv.Atoi(quantity))})
	}
	return orders
}
