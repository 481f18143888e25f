package tipstaff

import "encoding/json"

// USD is an amount of money in 10⁻⁹ USD. In JSON it is a decimal string: a number
// would be rounded by whoever reads it.
type USD int64

// ParseUSD reads a decimal with at most nine digits after its point, "0.50".
func ParseUSD(text string) (USD, error) {
	n, err := ParseBound(BoundCostUSD, text)
	return USD(n), err
}

// String is the amount as ParseUSD reads it, with at least two decimals.
func (u USD) String() string { return FormatBound(BoundCostUSD, int64(u)) }

// CostText is a cost for people, with what of it was lost.
func CostText(cost, lost USD) string {
	if lost == 0 {
		return "$" + cost.String()
	}
	return "$" + (cost - lost).String() + " + $" + lost.String() + " lost"
}

// MarshalJSON writes the decimal.
func (u USD) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// UnmarshalJSON reads it.
func (u *USD) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err != nil {
		return err
	}
	*u, err = ParseUSD(text)
	return err
}
