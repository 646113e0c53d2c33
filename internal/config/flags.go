package config

import "github.com/spf13/pflag"

// AddFlags adds a flag for each setting that has one, and --config. The function that it returns gives the sources of
// this process once the flags are parsed.
func AddFlags(fs *pflag.FlagSet) func() (Sources, error) {
	file := fs.String("config", "", "file of settings in the place of the user's harness.yaml")
	given := map[string]string{}
	for _, s := range settings {
		if s.flag == "" {
			continue
		}
		f := fs.VarPF(&flagValue{setting: s, given: given}, s.flag, "", s.help+" ("+s.env+")")
		if s.kind == flag {
			f.NoOptDefVal = "true"
		}
	}
	return func() (Sources, error) { return Process(*file, given) }
}

// flagValue notes a flag's text. Load checks it, together with the text of the other sources.
type flagValue struct {
	setting setting
	given   map[string]string
}

func (v *flagValue) String() string { return v.given[v.setting.key] }

func (v *flagValue) Set(text string) error {
	v.given[v.setting.key] = text
	return nil
}

func (v *flagValue) Type() string {
	switch v.setting.kind {
	case ratio:
		return "part"
	case path:
		return "path"
	case flag:
		return "bool"
	case count:
		return "number"
	case money:
		return "usd"
	case span:
		return "duration"
	case list:
		return "list"
	}
	return "text"
}
