"""List pages and watch events as the API server writes them."""

import msgspec

from jobcommon.api.view import decoder


class ListMetadata(msgspec.Struct):
    """The metadata of a list page, of which the last has no `continue_token`, or of a bookmark."""

    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    continue_token: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct):
    """A page of a list. Items stay encoded, so that one bad item cannot lose the page."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch, its object still encoded."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


class Bookmark(msgspec.Struct):
    """A bookmark: an object with nothing but metadata."""

    metadata: ListMetadata


page = decoder(Page)
watch_event = decoder(WatchEvent)
bookmark = decoder(Bookmark)
