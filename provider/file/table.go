package file

import (
	"maps"
	"math/big"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/document"
)

// UnknownWindow is the context window of a model that nobody has described.
const UnknownWindow = 32_768

// Table says what models can do and what they cost. It is not changed once made.
type Table struct {
	Date   string           // when it was written
	models map[string]entry // by id, or by prefix with a * at its end
}

// entry describes a model. What it leaves out is unknown.
type entry struct {
	ContextWindow int
	MaxOutput     int
	Images        *bool
	Structured    *bool
	Sampling      *bool // false: it refuses temperature and top_p
	Price         *prices
}

// prices are USD per million tokens, as decimals.
type prices struct {
	Input        string
	Output       string
	CacheRead    string // "": as input
	CacheWrite   string // "": as input
	CacheWrite1h string // "": as cache_write
}

// ParseTable reads a table. Its error lists every problem with its place.
func ParseTable(name string, src []byte) (*Table, error) {
	t := &Table{models: map[string]entry{}}
	err := parse(name, "the table of models", src, t.read)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Table) read(f *document.Fields) {
	t.Date = f.Text("date")
	f.Object("models", func(models *document.Fields) {
		models.IgnoreRest() // every name is one of a model
		for _, m := range models.Value.Members {
			if star := strings.IndexByte(m.Key, '*'); m.Key == "" || star >= 0 && star != len(m.Key)-1 {
				models.Report(document.CodeRange, m.At, m.Key, "%q is no name: it is a model's id, or a prefix that ends in *", document.Brief(m.Key))
			}
			of := models.Of(m.Value, models.PathOf(m.Key))
			t.models[m.Key] = readEntry(of)
			of.End()
		}
	})
}

func readEntry(f *document.Fields) entry {
	const most = 100_000_000 // tokens
	e := entry{
		ContextWindow: int(f.Integer("context_window", 0, 0, most)),
		MaxOutput:     int(f.Integer("max_output", 0, 0, most)),
		Images:        readFlag(f, "images"),
		Structured:    readFlag(f, "structured_output"),
		Sampling:      readFlag(f, "sampling"),
	}
	f.Object("price", func(p *document.Fields) {
		price := readPrices(p)
		e.Price = &price
	})
	return e
}

// readFlag tells false from what is not said.
func readFlag(f *document.Fields, name string) *bool {
	if f.Typed(name, document.Boolean) == nil {
		return nil
	}
	flag := f.Boolean(name, false)
	return &flag
}

func readPrices(f *document.Fields) prices {
	f.Need("input")
	f.Need("output")
	return prices{
		Input:        readPrice(f, "input"),
		Output:       readPrice(f, "output"),
		CacheRead:    readPrice(f, "cache_read"),
		CacheWrite:   readPrice(f, "cache_write"),
		CacheWrite1h: readPrice(f, "cache_write_1h"),
	}
}

// readPrice is a decimal, which is kept as it is written, in quotes or without.
func readPrice(f *document.Fields, name string) string {
	v := f.Get(name)
	if v == nil {
		return ""
	}
	if _, ok := nanoUSD(v.Text); !ok || v.Kind != document.Text && v.Kind != document.Number {
		f.Report(document.CodeRange, v.At, name, "%q is no price: write USD per million tokens as a decimal with at most 9 places, like \"0.25\"", document.Brief(v.Text))
	}
	return v.Text
}

// Merge is t with the entries of over before its own. Of an entry that both have,
// what over leaves out stays as it is in t.
func (t *Table) Merge(over *Table) *Table {
	merged := &Table{Date: over.Date, models: maps.Clone(t.models)}
	if merged.Date == "" {
		merged.Date = t.Date
	}
	if merged.models == nil {
		merged.models = map[string]entry{}
	}
	for id, e := range over.models {
		merged.models[id] = merged.models[id].merge(e)
	}
	return merged
}

func (e entry) merge(over entry) entry {
	if over.ContextWindow > 0 {
		e.ContextWindow = over.ContextWindow
	}
	if over.MaxOutput > 0 {
		e.MaxOutput = over.MaxOutput
	}
	if over.Images != nil {
		e.Images = over.Images
	}
	if over.Structured != nil {
		e.Structured = over.Structured
	}
	if over.Sampling != nil {
		e.Sampling = over.Sampling
	}
	if over.Price != nil {
		e.Price = over.Price
	}
	return e
}

// Caps is what the table says of a model. long: it is asked to keep its cache for an
// hour, which has a price of its own.
func (t *Table) Caps(model string, long bool) agent.Caps { return t.find(model).caps(long) }

// Sampling tells whether a model takes temperature and top_p, as far as the table
// knows.
func (t *Table) Sampling(model string) bool {
	e := t.find(model)
	return e.Sampling == nil || *e.Sampling
}

// find is the entry of a model: its own, else that of the longest prefix.
func (t *Table) find(model string) entry {
	if e, ok := t.models[model]; ok {
		return e
	}
	best := ""
	for id := range t.models {
		prefix, ok := strings.CutSuffix(id, "*")
		if ok && strings.HasPrefix(model, prefix) && len(id) > len(best) {
			best = id
		}
	}
	return t.models[best]
}

func (e entry) caps(long bool) agent.Caps {
	caps := agent.Caps{
		ContextWindow:    e.ContextWindow,
		MaxOutput:        e.MaxOutput,
		Images:           e.Images != nil && *e.Images,
		StructuredOutput: e.Structured != nil && *e.Structured,
	}
	if caps.ContextWindow == 0 {
		caps.ContextWindow = UnknownWindow
	}
	if e.Price != nil {
		caps.Price = e.Price.price(long)
	}
	return caps
}

func (p prices) price(long bool) *agent.Price {
	or := func(text string, otherwise int64) int64 {
		if n, ok := nanoUSD(text); ok {
			return n
		}
		return otherwise
	}
	price := &agent.Price{Input: or(p.Input, 0), Output: or(p.Output, 0)}
	price.CacheRead = or(p.CacheRead, price.Input)
	price.CacheWrite = or(p.CacheWrite, price.Input)
	if long {
		price.CacheWrite = or(p.CacheWrite1h, price.CacheWrite)
	}
	return price
}

var decimal = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,9})?$`)

// nanoUSD is a decimal amount of USD in 10⁻⁹ USD.
func nanoUSD(text string) (int64, bool) {
	if !decimal.MatchString(text) {
		return 0, false
	}
	amount, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	amount.Mul(amount, big.NewRat(1_000_000_000, 1))
	return amount.Num().Int64(), amount.IsInt()
}
