package runner

import (
	"strconv"
	"testing"
)

func TestMemoForgets(t *testing.T) {
	m := memo[int]{most: 10}
	for i := range 95 {
		m.put(strconv.Itoa(i), i)
		if got, known := m.get(strconv.Itoa(i)); !known || got != i {
			t.Fatalf("%d was put and %d found: %v", i, got, known)
		}
		if len(m.known) > 10 {
			t.Fatalf("%d are kept", len(m.known))
		}
	}
	if _, known := m.get("0"); known {
		t.Error("the first was not forgotten")
	}
}
