package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
)

// Style says how much a terminal can do. The zero value is plain text.
type Style struct{ Color bool }

func (s Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Dim, Bold, Red, Green, Yellow and Blue paint text where the terminal has colours.
func (s Style) Dim(t string) string    { return s.paint("2", t) }
func (s Style) Bold(t string) string   { return s.paint("1", t) }
func (s Style) Red(t string) string    { return s.paint("31", t) }
func (s Style) Green(t string) string  { return s.paint("32", t) }
func (s Style) Yellow(t string) string { return s.paint("33", t) }
func (s Style) Blue(t string) string   { return s.paint("36", t) }

// Duration shows milliseconds in a few characters: 12ms, 2.1s, 3m04s.
func Duration(ms int64) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// Number groups the digits of a count by thousands.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

// Usage tells tokens and money in one line. A cost that is not known says why.
func Usage(u event.UsageTotals, c event.CostTotals) string {
	s := fmt.Sprintf("%s tokens (%s in, %s out)", Number(u.TotalTokens), Number(u.PromptTokensTotal), Number(u.CompletionTokensTotal))
	return s + " · " + Cost(c)
}

// Cost tells money, and how far the number can be trusted.
func Cost(c event.CostTotals) string {
	usd := "$" + strconv.FormatFloat(c.CostUSDTotal, 'f', 4, 64)
	switch c.CostStatus {
	case event.CostAvailable:
		return usd
	case event.CostProviderUnreported:
		return "at least " + usd + " (the provider did not report all usage)"
	case event.CostUnpricedModel:
		return "cost unknown (the model has no price)"
	}
	return "cost not known yet"
}

// Ago tells how long before now a time was.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
