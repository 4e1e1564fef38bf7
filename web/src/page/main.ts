/** The page: the three parties, one card for each application of the service, and what happened. */

import {
  type Application,
  type ApplicationInfo,
  type CallOptions,
  type OpenOptions,
  Service,
  UnspokenError,
} from "../index.js";
import { Card, type View } from "./card.js";
import { chatView } from "./chat.js";
import { digitsView } from "./digits.js";
import { byId, button, element } from "./elements.js";
import { lookupView } from "./lookup.js";
import { modelView } from "./model.js";
import { showHappened } from "./happened.js";
import { showLive } from "./live.js";
import { record, showMemory } from "./record.js";
import { announce, listen } from "./requests.js";
import { searchView } from "./search.js";
import { storyView } from "./story.js";
import { textView } from "./text.js";

const status = byId("status");
const cards = byId("applications");
const form = byId("settings-form") as HTMLFormElement;
/** The kinds of applications that the page can ask, in the order of their cards: first what is seen at a glance. */
const KINDS = ["digits", "search", "classify", "retrieve", "model", "llama"];

let service: Service | undefined;
let shown: Card[] = [];

function setting(name: string): string | undefined {
  const value = new FormData(form).get(name);
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Counts the starts: what an earlier one opens late is closed. */
let starts = 0;

/** Opens the service and shows its applications. */
async function start(): Promise<void> {
  const number = (starts += 1);
  service?.close();
  cards.replaceChildren();
  shown = [];
  status.className = "";
  status.textContent = "Loading…";
  try {
    // The service may be below a path of a proxy, as the page is.
    const opened = await Service.open(new URL(".", location.href).href, {
      token: setting("token"),
      onRequest: announce,
      onRestart: () => {
        shown.forEach((card) => {
          card.lose();
        });
      },
    });
    if (number !== starts) {
      opened.close();
      return;
    }
    service = opened;
    const names = await opened.applications();
    // The documents of a collection are fetched by its card.
    const own = names.filter((name) => !names.some((other) => name === `${other}-documents`));
    await Promise.all(own.map((name) => show(opened, name)));
    arrange();
    status.textContent = names.length === 0 ? "This service offers nothing." : `Connected to ${opened.url}.`;
    await refreshMemory();
  } catch (error) {
    if (number !== starts) {
      return;
    }
    const { code, message } = UnspokenError.of(error);
    status.className = "error";
    status.textContent = message;
    if (code === "unauthorized") {
      byId("settings").setAttribute("open", "");
      status.append(" Type the token under ", element("a", { href: "#settings" }, "Settings"), ".");
    }
  }
}

async function refreshMemory(): Promise<void> {
  if (service !== undefined) {
    showMemory(await service.memory());
  }
}

/** Shows the card of an application, or why there is none. */
async function show(from: Service, name: string): Promise<void> {
  const place = element("div");
  cards.append(place);
  try {
    let mode: string | undefined;
    const open = async (options: CallOptions): Promise<Application> => {
      const opening: OpenOptions = { passphrase: setting("passphrase"), mode };
      return await from.application(name, { ...opening, ...options });
    };
    const application = await open({});
    let card: Card | undefined;
    const choose = (chosen: string): void => {
      mode = chosen;
      void card?.reopen();
    };
    const view = viewOf(application.info, choose);
    card = new Card(application, view, open, (happened) => {
      if (happened !== undefined) {
        showHappened(happened);
      }
      void refreshMemory();
    });
    shown.push(card);
    place.replaceWith(card.element);
  } catch (error) {
    const message = element("p", { class: "help" }, UnspokenError.of(error).message);
    const again = button("Try again", async () => {
      card.remove();
      await show(from, name);
      arrange();
    });
    const card = element("article", { class: "card" }, element("h3", {}, name), message, again);
    place.replaceWith(card);
  }
}

/** Puts the cards that can be asked first, in a fixed order. */
function arrange(): void {
  const place = (card: Element): number => {
    const at = KINDS.indexOf((card as HTMLElement).dataset["kind"] ?? "");
    return at < 0 ? KINDS.length : at;
  };
  const sorted = Array.from(cards.children).sort((a, b) => place(a) - place(b));
  cards.replaceChildren(...sorted);
}

function viewOf(info: ApplicationInfo, choose: (mode: string) => void): View {
  switch (info.kind) {
    case "digits":
      return digitsView();
    case "classify":
      return textView();
    case "model":
      return modelView(info.model);
    case "search":
      return searchView(info.collection);
    case "llama":
      return info.takesMessages ? chatView() : storyView();
    default:
      return lookupView("packed", choose);
  }
}

listen(record);
listen(showLive);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void start();
});
void start();
