//! The functions of Python's library, and of the usual packages, by what they do.

use crate::codec::{self, Codec};
use crate::rule::{self, Rule};

/// The act of a function.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    // Runs something.
    Evaluate,
    Shell,
    Program,
    Import,
    GetAttribute,
    Fork,
    Opaque,
    Unpickle,
    // Is about files.
    Open,
    Path,
    JoinPath,
    Expand,
    ReadText,
    WriteText,
    List,
    Walk,
    Delete,
    DeleteTree,
    Move,
    Mode,
    Watch,
    // Is about the network.
    Fetch,
    Post,
    Request,
    Download,
    Address,
    Connect,
    TryPort,
    SendTo,
    Send,
    Receive,
    Duplicate,
    // Computes.
    Decode(&'static Codec),
    DecodeBy,
    EncodeBy,
    Characters,
    Ordinal,
    Bytes,
    Same,
    Unchanged,
    Contents,
    Reverse,
    Join,
    Format,
    Replace,
    Split,
    Clock,
    Environment,
    Keep,
    Write,
    Encrypt,
    /// Is a class of its own.
    Rule(&'static Rule, &'static str),
}

/// The name by which rules know a thing that has several.
pub fn canonical(name: &str) -> String {
    let name = name
        .strip_prefix("builtins.")
        .or_else(|| name.strip_prefix("__builtins__."))
        .unwrap_or(name);
    let name = name
        .strip_prefix("os.path.os.")
        .map_or_else(|| name.to_owned(), |rest| format!("os.{rest}"));
    name.strip_prefix("io.open")
        .map_or(name.clone(), |rest| format!("open{rest}"))
}

/// The act of a function, by its dotted name.
pub fn does(name: &str) -> Option<Does> {
    runs(name)
        .or_else(|| files(name))
        .or_else(|| network(name))
        .or_else(|| computes(name))
        .or_else(|| observes(name))
}

fn runs(name: &str) -> Option<Does> {
    Some(match name {
        "eval" | "exec" | "compile" | "code.interact" | "types.FunctionType" | "timeit.timeit" => {
            Does::Evaluate
        }
        "os.system"
        | "os.popen"
        | "subprocess.getoutput"
        | "subprocess.getstatusoutput"
        | "commands.getoutput"
        | "asyncio.create_subprocess_shell"
        | "pty.spawn" => Does::Shell,
        "subprocess.run"
        | "subprocess.call"
        | "subprocess.Popen"
        | "subprocess.check_output"
        | "subprocess.check_call"
        | "os.startfile" => Does::Program,
        "__import__" | "importlib.import_module" | "importlib.__import__" => Does::Import,
        "getattr" => Does::GetAttribute,
        "os.fork" | "os.forkpty" => Does::Fork,
        "marshal.loads" | "marshal.load" => Does::Opaque,
        "pickle.loads" | "pickle.load" | "cPickle.loads" | "dill.loads" | "yaml.unsafe_load" => {
            Does::Unpickle
        }
        "os.memfd_create" => Does::Rule(
            &rule::FILELESS,
            "makes a file in memory, from which a program can be run without a trace on disk",
        ),
        "ctypes.CDLL().ptrace" | "ctypes.CDLL().process_vm_writev" => {
            Does::Rule(&rule::INJECTS, "reaches into the memory of other processes")
        }
        "ctypes.CDLL().mprotect" => Does::Rule(
            &rule::INJECTS,
            "makes memory executable that it has written",
        ),
        "crontab.CronTab" => Does::Rule(&rule::SCHEDULES, "edits the table of cron"),
        _ if name.starts_with("os.exec")
            || name.starts_with("os.spawn")
            || name.starts_with("os.posix_spawn") =>
        {
            Does::Program
        }
        _ => return None,
    })
}

fn files(name: &str) -> Option<Does> {
    Some(match name {
        "open" | "codecs.open" | "os.open" | "os.fdopen" | "aiofiles.open" => Does::Open,
        "pathlib.Path" | "pathlib.PosixPath" | "pathlib.PurePath" => Does::Path,
        "os.path.join" => Does::JoinPath,
        "os.path.expanduser" | "os.path.expandvars" | "os.path.abspath" | "os.path.realpath"
        | "os.path.normpath" | "os.fspath" => Does::Expand,
        "linecache.getlines" | "linecache.getline" => Does::ReadText,
        "os.listdir" | "os.scandir" | "glob.glob" | "glob.iglob" => Does::List,
        "os.walk" | "os.fwalk" => Does::Walk,
        "os.remove" | "os.unlink" | "os.rmdir" => Does::Delete,
        "shutil.rmtree" | "os.removedirs" => Does::DeleteTree,
        "shutil.copy" | "shutil.copyfile" | "shutil.copy2" | "shutil.move" | "os.rename"
        | "os.replace" | "os.symlink" | "os.link" => Does::Move,
        "os.chmod" => Does::Mode,
        _ => return None,
    })
}

fn network(name: &str) -> Option<Does> {
    Some(match name {
        "urllib.request.urlopen" | "urllib2.urlopen" | "urllib.urlopen" => Does::Fetch,
        "urllib.request.Request" | "urllib2.Request" => Does::Request,
        "urllib.request.urlretrieve" | "urllib.urlretrieve" | "wget.download" => Does::Download,
        "http.client.HTTPConnection"
        | "http.client.HTTPSConnection"
        | "smtplib.SMTP"
        | "smtplib.SMTP_SSL"
        | "ftplib.FTP"
        | "telnetlib.Telnet"
        | "poplib.POP3"
        | "imaplib.IMAP4" => Does::Address,
        "socket.create_connection" | "asyncio.open_connection" => Does::Connect,
        "os.dup2" => Does::Duplicate,
        "scapy.all.sr" | "scapy.all.sr1" | "nmap.PortScanner" => {
            Does::Rule(&rule::SCANS_NETWORK, "tries ports or hosts of the network")
        }
        _ => {
            let (module, function) = name.rsplit_once('.')?;
            let is_client = [
                "requests",
                "httpx",
                "requests.Session()",
                "requests.session()",
                "httpx.Client()",
                "urllib3.PoolManager()",
                "aiohttp.ClientSession()",
            ];
            let function = if is_client.contains(&module) {
                function
            } else {
                ""
            };
            match function {
                "get" | "head" | "options" => Does::Fetch,
                "post" | "put" | "patch" => Does::Post,
                _ => return None,
            }
        }
    })
}

fn computes(name: &str) -> Option<Does> {
    if let Some(codec) = Codec::of_function(name) {
        return Some(Does::Decode(codec));
    }
    Some(match name {
        "codecs.decode" => Does::DecodeBy,
        "codecs.encode" => Does::EncodeBy,
        "chr" => Does::Characters,
        "ord" => Does::Ordinal,
        "bytes" | "bytearray" => Does::Bytes,
        "str" | "list" | "tuple" | "sorted" | "iter" => Does::Same,
        "reversed" => Does::Reverse,
        "time.time"
        | "time.localtime"
        | "time.gmtime"
        | "datetime.datetime.now"
        | "datetime.datetime.today"
        | "datetime.datetime.utcnow"
        | "datetime.date.today"
        | "datetime.now"
        | "time.time_ns" => Does::Clock,
        "os.getenv" | "os.environ.get" => Does::Environment,
        "cryptography.fernet.Fernet().encrypt"
        | "Crypto.Cipher.AES.new().encrypt"
        | "Crypto.Cipher.AES.new"
        | "Cryptodome.Cipher.AES.new" => Does::Encrypt,
        _ => return None,
    })
}

const SCREEN: &str = "takes a picture of the screen";
const CLIPBOARD: &str = "reads the clipboard";
const KEYBOARD: &str = "listens to the keyboard or the mouse";
const MACHINE: &str = "observes the load, the processes or the network of the machine";

fn observes(name: &str) -> Option<Does> {
    Some(match name {
        "PIL.ImageGrab.grab" | "pyautogui.screenshot" | "mss.mss" | "pyscreenshot.grab" => {
            Does::Rule(&rule::WATCHES_USER, SCREEN)
        }
        "pyperclip.paste"
        | "pyperclip.waitForNewPaste"
        | "pyperclip.waitForPaste"
        | "clipboard.paste" => Does::Rule(&rule::WATCHES_USER, CLIPBOARD),
        "pynput.keyboard.Listener"
        | "pynput.mouse.Listener"
        | "keyboard.on_press"
        | "keyboard.hook"
        | "keyboard.record" => Does::Rule(&rule::WATCHES_USER, KEYBOARD),
        "cv2.VideoCapture" | "sounddevice.rec" | "pyaudio.PyAudio" => {
            Does::Rule(&rule::WATCHES_USER, "records by a camera or a microphone")
        }
        "watchdog.observers.Observer().schedule" | "pyinotify.WatchManager().add_watch" => {
            Does::Watch
        }
        _ => {
            let function = name.strip_prefix("psutil.")?;
            let is_asked = [
                "cpu_percent",
                "cpu_times",
                "cpu_stats",
                "virtual_memory",
                "net_io_counters",
                "net_connections",
                "net_if_addrs",
                "disk_io_counters",
                "process_iter",
                "pids",
                "users",
                "getloadavg",
                "cpu_freq",
                "swap_memory",
                "disk_usage",
            ];
            is_asked
                .contains(&function)
                .then_some(Does::Rule(&rule::WATCHES_MACHINE, MACHINE))?
        }
    })
}

/// The act of a method by its own name, whatever object it is of.
pub fn method(name: &str) -> Option<Does> {
    Some(match name {
        "read_text" | "read_bytes" => Does::ReadText,
        "write_text" | "write_bytes" => Does::WriteText,
        "iterdir" => Does::List,
        "rglob" => Does::Walk,
        "expanduser" | "resolve" | "absolute" => Does::Expand,
        "connect" => Does::Connect,
        "connect_ex" => Does::TryPort,
        "sendto" => Does::SendTo,
        "sendall" | "send" | "sendmail" | "sendfile" => Does::Send,
        "recv" | "recvfrom" | "recv_into" => Does::Receive,
        "write" | "writelines" => Does::Write,
        "append" | "extend" | "add" | "insert" | "appendleft" | "setdefault" | "put" | "update" => {
            Does::Keep
        }
        "join" => Does::Join,
        "format" => Does::Format,
        "replace" => Does::Replace,
        "split" => Does::Split,
        "decode" => Does::DecodeBy,
        "encode" => Does::EncodeBy,
        "fromhex" => Does::Decode(&codec::HEX),
        "strip" | "rstrip" | "lstrip" | "lower" | "as_posix" | "copy" => Does::Unchanged,
        "read" | "readlines" | "readline" => Does::Contents,
        _ => return None,
    })
}

/// The port of a protocol whose client is made without one.
pub fn port(name: &str) -> Option<i64> {
    Some(match name {
        "http.client.HTTPConnection" => 80,
        "http.client.HTTPSConnection" => 443,
        "smtplib.SMTP" => 25,
        "ftplib.FTP" => 21,
        _ => return None,
    })
}
