package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

// Sources are where Load reads from.
type Sources struct {
	// Env is the environment, "NAME=value".
	Env []string
	// Dir is the current folder: relative paths of variables and flags begin here, and it is the default workspace.
	Dir string
	// UserDir is the folder with harness.yaml and the list of trusted contents; empty means none.
	UserDir string
	// File, when set, is read in the place of UserDir's harness.yaml and must exist.
	File string
	// Flags are the given flags, by the key of the setting.
	Flags map[string]string
}

// Process returns the sources of this process: its environment, its folder and the user's configuration folder.
func Process(file string, flags map[string]string) (Sources, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Sources{}, fmt.Errorf("current folder: %w", err)
	}
	return Sources{Env: os.Environ(), Dir: dir, UserDir: UserDir(), File: file, Flags: flags}, nil
}

// others are HARNESS_* variables that are read elsewhere.
var others = []string{"HARNESS_CONFIG", "HARNESS_API_KEY", "HARNESS_SERVER"}

// Load reads all sources and checks the result. Its errors are *Error.
func Load(src Sources) (Config, error) {
	return newLoader(src).load()
}

func newLoader(src Sources) *loader {
	l := &loader{src: src, env: map[string]string{}}
	for _, kv := range src.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			l.env[name] = value
		}
	}
	return l
}

type loader struct {
	src    Sources
	env    map[string]string
	config Config
	// layers are the values of each source, weakest first; entries are the providers of the file.
	layers  []map[string]entry
	entries []providerEntry
}

func (l *loader) note(format string, args ...any) {
	l.config.Notes = append(l.config.Notes, fmt.Sprintf(format, args...))
}

func (l *loader) load() (Config, error) {
	user, err := l.userFile()
	if err != nil {
		return Config{}, err
	}
	env, err := l.environment()
	if err != nil {
		return Config{}, err
	}
	flags, err := l.flags()
	if err != nil {
		return Config{}, err
	}
	defaults := l.defaults()
	workspace, err := l.workspaceFile(defaults, user.entries, env, flags)
	if err != nil {
		return Config{}, err
	}
	l.layers, l.entries = []map[string]entry{defaults, user.entries, workspace, env, flags}, user.providers
	if err := l.merge(l.layers...); err != nil {
		return Config{}, err
	}
	if err := l.providers(); err != nil {
		return Config{}, err
	}
	if err := l.telemetry(); err != nil {
		return Config{}, err
	}
	if err := l.check(); err != nil {
		return Config{}, err
	}
	return l.config, nil
}

func (l *loader) defaults() map[string]entry {
	d := map[string]entry{
		"addr":              {value: "127.0.0.1:8080"},
		"workspace":         {value: l.src.Dir},
		"approval_deadline": {value: 72 * time.Hour},
		"question_deadline": {value: 24 * time.Hour},
		"log_level":         {value: "info"},
		"log_format":        {value: "auto"},
		"instructions":      {value: true},

		"auto_compact.enabled":   {value: true},
		"auto_compact.threshold": {value: 0.8},
		"auto_compact.mode":      {value: string(tool.CompactHybrid)},
		"auto_compact.keep_last": {value: 4},
		"floor.sandbox":          {value: string(tool.SandboxScopeUnrestricted)},
		"floor.network":          {value: string(tool.NetworkPolicyAllow)},
		"floor.approval":         {value: string(tool.ApprovalPolicyNone)},
	}
	if dir := stateDir(l.env); dir != "" {
		d["state_dir"] = entry{value: dir}
	}
	return d
}

func (l *loader) userFile() (document, error) {
	l.config.UserDir = l.src.UserDir
	name, must := l.userFileName()
	if name == "" {
		return document{}, nil
	}
	data, err := readFile(openPlain(name), name)
	if err != nil {
		return document{}, err
	}
	if data == nil {
		if must != "" {
			return document{}, &Error{Source: must, Message: name + " does not exist"}
		}
		return document{}, nil
	}
	return parseFile(name, data, nil)
}

// userFileName is the path of the user's file, empty where there can be none, and what names a file that must exist.
func (l *loader) userFileName() (name, must string) {
	name, must = l.src.File, "--config"
	if name == "" {
		name, must = l.env["HARNESS_CONFIG"], "HARNESS_CONFIG"
	}
	if name == "" {
		if l.src.UserDir == "" {
			return "", ""
		}
		name, must = filepath.Join(l.src.UserDir, "harness.yaml"), ""
	}
	return absolute(l.src.Dir, name), must
}

// UserFile is the path of the file of settings that Load reads first, whether it is there or not; empty where the
// environment names no home.
func UserFile(src Sources) string {
	name, _ := newLoader(src).userFileName()
	return name
}

func (l *loader) environment() (map[string]entry, error) {
	out := map[string]entry{}
	known := slices.Clone(others)
	for _, s := range settings {
		known = append(known, s.env)
		v := l.env[s.env]
		if v == "" {
			continue
		}
		e, err := l.text(s, v)
		if err != nil {
			return nil, &Error{Source: s.env, Message: err.Error()}
		}
		e.source = s.env
		out[s.key] = e
	}
	var unknown []string
	for name := range l.env {
		if strings.HasPrefix(name, "HARNESS_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		l.note("The variable %s is not one that this program reads%s", name, strings.Replace(suggestion(name, known), "?", "", 1)+".")
	}
	return out, nil
}

func (l *loader) flags() (map[string]entry, error) {
	out := map[string]entry{}
	for key, v := range l.src.Flags {
		s, ok := settingByKey(key)
		if !ok {
			return nil, &Error{Source: "flags", Key: key, Message: "is not a setting"}
		}
		e, err := l.text(s, v)
		if err != nil {
			return nil, &Error{Source: "--" + s.flag, Message: err.Error()}
		}
		e.source = "--" + s.flag
		out[key] = e
	}
	return out, nil
}

func (l *loader) text(s setting, v string) (entry, error) {
	value, err := s.parse(v)
	if err != nil {
		return entry{}, err
	}
	if s.kind == path {
		value = absolute(l.src.Dir, value.(string))
	}
	return entry{value: value}, nil
}

// workspaceFile finds the workspace that the other layers give and reads its file. Content that nobody trusted is
// kept aside and told.
func (l *loader) workspaceFile(layers ...map[string]entry) (map[string]entry, error) {
	var dir entry
	for _, layer := range layers {
		if e, ok := layer["workspace"]; ok {
			dir = e
		}
	}
	path := dir.value.(string)
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("is not a folder")}
	}
	if err != nil {
		return nil, &Error{Source: sourceOf(dir), Key: "workspace", Message: path + ": " + cause(err)}
	}
	file, err := FindWorkspaceFile(path)
	if err != nil || file == nil {
		return nil, err
	}
	ok, err := file.Trusted(l.src.UserDir)
	if err != nil {
		return nil, err
	}
	if !ok {
		l.config.Untrusted = file
		l.note("%s is ignored: nobody trusted its content. Read it, then run: harness trust %s", file.Path, path)
		return nil, nil
	}
	doc, err := file.parse()
	return doc.entries, err
}

func sourceOf(e entry) string {
	if e.source == "" {
		return "default"
	}
	return e.source
}

// layer hands one source to koanf.
type layer map[string]any

func (layer) ReadBytes() ([]byte, error)      { return nil, fmt.Errorf("config: a layer has no bytes") }
func (m layer) Read() (map[string]any, error) { return m, nil }

func (l *loader) merge(layers ...map[string]entry) error {
	ko := koanf.New(".")
	l.config.Origins = map[string]string{}
	for _, entries := range layers {
		m := layer{}
		for key, e := range entries {
			if group, name, ok := strings.Cut(key, "."); ok {
				sub, _ := m[group].(map[string]any)
				if sub == nil {
					sub = map[string]any{}
					m[group] = sub
				}
				sub[name] = e.value
			} else {
				m[key] = e.value
			}
			if e.source != "" {
				l.config.Origins[key] = e.source
			}
		}
		if err := ko.Load(m, nil); err != nil {
			return fmt.Errorf("config: merge: %w", err)
		}
	}
	if err := ko.Unmarshal("", &l.config); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	l.config.Proxy = model.NewSecret(ko.String("proxy"))
	l.config.Floor = tool.PermissionConfig{
		Sandbox:  tool.SandboxScope(ko.String("floor.sandbox")),
		Network:  tool.NetworkPolicy(ko.String("floor.network")),
		Approval: tool.ApprovalPolicy(ko.String("floor.approval")),
	}
	return nil
}

// providers puts the file's providers before those of the environment. With provider fake there is only that one, so
// that no model name can lead to a paid service.
func (l *loader) providers() error {
	if l.config.Fake() {
		l.config.Providers = []model.ProviderConfig{{Name: model.TypeFake, Type: model.TypeFake}}
		return nil
	}
	for _, e := range l.entries {
		c, note, err := e.resolve(l.env)
		if err == nil {
			err = e.addHeaders(&c, l.env)
		}
		if err != nil {
			return err
		}
		if c.Proxy, err = proxyOf(e.proxy, l.config.Proxy); err != nil {
			return &Error{Source: e.source, Key: c.Name + ".proxy", Message: err.Error()}
		}
		if note != "" {
			l.note("%s", note)
		}
		l.config.Providers = append(l.config.Providers, c)
	}
	more, err := fromEnvironment(l.env, l.config.Providers)
	if err != nil {
		return err
	}
	for _, c := range more {
		if c.Proxy, err = proxyOf("", l.config.Proxy); err != nil {
			return &Error{Source: l.config.Origins["proxy"], Key: "proxy", Message: err.Error()}
		}
		l.config.Providers = append(l.config.Providers, c)
	}
	return nil
}
