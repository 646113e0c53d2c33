package httpapi

import (
	"strings"
	"testing"
)

func TestATraceContextIsTakenWhereItIsValid(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	good := "00-" + trace + "-" + span + "-01"
	for in, want := range map[string]string{
		good:                                  good,
		" " + good + " ":                      good,
		"cc" + good[2:]:                       good,
		"cc" + good[2:] + "-what-comes-later": good,
		good + "-x":                           "",
		"cc" + good[2:] + "x":                 "",
		"ff" + good[2:]:                       "",
		strings.ToUpper(good):                 "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": "",
		"00-" + trace + "-" + span + "-0g":                    "",
		"00-" + trace + "_" + span + "-01":                    "",
		"":                                                    "", "00": "",
	} {
		if got := parseTraceparent(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x")
	f.Fuzz(func(t *testing.T, s string) {
		if got := parseTraceparent(s); got != "" && (len(got) != traceparentLen || parseTraceparent(got) != got) {
			t.Fatalf("%q gives %q", s, got)
		}
	})
}
