package pipeline

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/flow/flowtest"
)

func TestTypesThatWriteThemselves(t *testing.T) {
	amounts := map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[Money](): rapid.Map(rapid.Int64Min(0), func(n int64) Money { return Money(n) }).AsAny(),
	}
	flowtest.WritesItself[StageStarted](t, amounts)
	flowtest.WritesItself[StageFinished](t, amounts)
	flowtest.WritesItself[Usage](t, amounts)
	flowtest.WritesItself[Transition](t, amounts)
	flowtest.WritesItself[TurnMerged](t, amounts)
	flowtest.WritesItself[beginInput](t, amounts)
	flowtest.WritesItself[scriptedInput](t, amounts)
}
