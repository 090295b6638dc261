package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// token is what a continue token holds: the version that the first page showed, or latest, and the key to go on from.
type token struct {
	Scheme  string `json:"v"`
	Version int64  `json:"rv"`
	Start   string `json:"start"`
}

const (
	tokenScheme = "meta.k8s.io/v1"
	// latest is the version of a token that goes on with what is there now.
	latest = -1
)

// tokenAfter goes on behind a key.
func tokenAfter(rv uint64, key string) string {
	return token{Scheme: tokenScheme, Version: int64(rv), Start: strings.TrimPrefix(key, "/") + "\x00"}.String()
}

func (t token) String() string { return base64.RawURLEncoding.EncodeToString(encode(t)) }

// parseToken reads a continue token.
func parseToken(text string) (token, error) {
	var t token
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	switch {
	case err != nil:
	case t.Scheme != tokenScheme:
		err = fmt.Errorf("server does not recognize this encoded version %s", t.Scheme)
	case t.Version == 0 || t.Version < latest:
		err = errors.New("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		err = errors.New("encoded start key empty (version meta.k8s.io/v1)")
	case path.Clean("/"+t.Start) != "/"+t.Start:
		err = errors.New(t.Start)
	}
	if err != nil {
		return token{}, apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
	}
	return t, nil
}

// key is where the objects that the token goes on with begin; the keys of cluster-wide kinds begin with a slash.
func (t token) key(namespaced bool) string {
	if namespaced {
		return t.Start
	}
	return "/" + t.Start
}

// expired says that the state a token stands for is forgotten, and offers a token that goes on with the latest one.
func (t token) expired() error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	err.ErrStatus.Continue = token{Scheme: tokenScheme, Version: latest, Start: t.Start}.String()
	return err
}
