package tipstaff_test

import (
	"go/ast"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// Requests and answers are values, so that a Service can be elsewhere: no function, no
// channel, nothing that JSON would leave behind.
func TestServiceIsMadeOfValues(t *testing.T) {
	service := reflect.TypeFor[tipstaff.Service]()
	looked := 0
	for i := range service.NumMethod() {
		m := service.Method(i)
		var types []reflect.Type
		for i := range m.Type.NumIn() {
			types = append(types, m.Type.In(i))
		}
		for i := range m.Type.NumOut() {
			types = append(types, m.Type.Out(i))
		}
		for _, typ := range types {
			if name := typ.String(); name == "context.Context" || name == "error" || strings.HasPrefix(name, "iter.Seq2[github.com/tipstaff/tipstaff.Event,") {
				continue
			}
			looked++
			for _, fault := range notValues(typ, m.Name, map[reflect.Type]bool{}) {
				t.Error(fault)
			}
		}
	}
	if looked < service.NumMethod() {
		t.Errorf("%d types of %d methods were looked at", looked, service.NumMethod())
	}
}

// local is what stays where it is: nobody elsewhere is promised it.
var local = []string{"Event.Raw", "Event.Hash", "Error.Err"}

// notValues says what of a type cannot be sent.
func notValues(typ reflect.Type, at string, seen map[reflect.Type]bool) (faults []string) {
	if seen[typ] {
		return nil
	}
	seen[typ] = true
	switch typ.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Interface:
		return []string{at + " is a " + typ.String()}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return notValues(typ.Elem(), at, seen)
	case reflect.Map:
		return append(notValues(typ.Key(), at, seen), notValues(typ.Elem(), at, seen)...)
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() && !f.Anonymous || slices.Contains(local, typ.Name()+"."+f.Name) {
				continue
			}
			if f.Tag.Get("json") == "-" {
				faults = append(faults, at+"."+f.Name+" is not sent")
			}
			faults = append(faults, notValues(f.Type, at+"."+f.Name, seen)...)
		}
	}
	return faults
}

func TestWhatIsNoValueIsFound(t *testing.T) {
	for _, c := range []struct {
		v    any
		want int
	}{
		{struct{ A map[string][]*int }{}, 0},
		{struct{ F func() }{}, 1},
		{struct{ A []struct{ C chan int } }{}, 1},
		{struct{ Any any }{}, 1},
		{struct {
			N int `json:"-"`
		}{}, 1},
	} {
		if got := notValues(reflect.TypeOf(c.v), "x", map[reflect.Type]bool{}); len(got) != c.want {
			t.Errorf("%T: %v", c.v, got)
		}
	}
}

// household are nouns that say nothing to somebody who knows the field.
var household = regexp.MustCompile(`(?i)^(desk|shelf|crew|kit|course|leavings?|exhibits?|hearing|door|talk)s?$`)

var words = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// Types and files are named in words of the field.
func TestNamesAreOfTheField(t *testing.T) {
	check := func(path, name string) {
		if slices.ContainsFunc(words.FindAllString(name, -1), household.MatchString) {
			t.Errorf("%s: what is a %s?", path, name)
		}
	}
	eachProductFile(t, func(path string, file *ast.File) {
		check(path, strings.TrimSuffix(filepath.Base(path), ".go"))
		ast.Inspect(file, func(n ast.Node) bool {
			if typ, ok := n.(*ast.TypeSpec); ok {
				check(path, typ.Name.Name)
			}
			return true
		})
	})
}
