//! What a profile says: views of the saved model, none of which changes it.

pub mod agreement;
pub mod attribution;
pub mod callgraph;
pub mod calltree;
pub mod column;
pub mod compare;
pub mod copies;
pub mod crosscheck;
pub mod describe;
pub mod disassembly;
pub mod evidence;
pub mod functions;
pub mod happened;
pub mod heap;
pub mod listing;
pub mod lookup;
pub mod metrics;
pub mod part;
pub mod place;
mod rtic;
pub mod source;
pub mod stacks;
pub mod time;
pub mod timeline;
pub mod trace;
pub mod visit;
pub mod zone;
