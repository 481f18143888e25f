package builtin

import (
	"fmt"
	"time"
)

const maxSleep = 10 * time.Minute

var sleepTool = definition{
	name:        "sleep",
	title:       "Wait",
	description: "Waits for a duration of at most 10m. Ends at once when it is cancelled.",
	input: `{"type":"object","additionalProperties":false,"required":["duration"],"properties":{
		"duration":{"type":"string","description":"like 500ms, 90s or 10m"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["slept"],"properties":{"slept":{"type":"string"}}}`,
	hints:  annotations{ReadOnly: true},
}

type sleepArgs struct {
	Duration string `json:"duration"`
}

type slept struct {
	Slept string `json:"slept"`
}

func (s *Server) sleep(c call, in sleepArgs) (answer, error) {
	d, err := time.ParseDuration(in.Duration)
	if err != nil {
		return answer{}, fmt.Errorf("%q is not a duration like 500ms, 90s or 10m", in.Duration)
	}
	if d < 0 || d > maxSleep {
		return answer{}, fmt.Errorf("%s is not between 0s and %s", d, maxSleep)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return answer{value: slept{d.String()}, text: d.String()}, nil
	case <-c.ctx.Done():
		return answer{}, fmt.Errorf("the wait was cancelled")
	}
}
