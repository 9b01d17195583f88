//! The nftables table of one node: its ports and the rules around them.

use super::mapping::{self, Element};
use super::nft::{self, Answer, NftError};
use super::{Layout, Mapping, listing, rules};

/// How nft ends the description of something that is not there.
const ABSENT: &str = "No such file or directory";

/// Why the table could not be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// nft could not be run.
    #[error("cannot {operation} of nftables table {table}")]
    Nft {
        /// The name of the table.
        table: String,
        /// The operation.
        operation: &'static str,
        /// Why.
        #[source]
        source: NftError,
    },
    /// nft or the kernel refused. Nothing was changed.
    #[error("nft refused to {operation} of nftables table {table}: {reason}")]
    Refused {
        /// The name of the table.
        table: String,
        /// The operation.
        operation: &'static str,
        /// The words of nft.
        reason: String,
    },
    /// A port is mapped to something else. Nothing was changed.
    #[error("cannot map {wanted}: nftables table {table} has {present}; remove that first")]
    Taken {
        /// The name of the table.
        table: String,
        /// The mapping that was to be added.
        wanted: Mapping,
        /// The mapping that has the port.
        present: Mapping,
    },
    /// The description of the table could not be understood.
    #[error("cannot understand what nft wrote about table {table}: {reason}")]
    Malformed {
        /// The name of the table.
        table: String,
        /// The fault.
        reason: String,
    },
}

/// The nftables table of one node, in the network namespace of the calling thread. Each method
/// runs one nft process, for about 5 ms; only a conflict makes it two or three. A change is one
/// transaction: it happens as a whole or not at all.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    layout: Layout,
}

impl Table {
    /// The table of a layout. Nothing is done.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self { layout }
    }

    /// Makes the table, or replaces the rules of the one that is there. Its mappings stay, and no
    /// packet sees the table without its rules.
    ///
    /// # Errors
    /// nft is missing or refused.
    pub fn ensure(&self) -> Result<(), TableError> {
        self.apply("set the rules", &rules::ensure(&self.layout))
    }

    /// Maps ports. A mapping that is there already changes nothing.
    ///
    /// # Errors
    /// A port is mapped to something else ([`TableError::Taken`]), nft is missing or refused, or
    /// the table is not there.
    pub fn add(&self, mappings: &[Mapping]) -> Result<(), TableError> {
        if mappings.is_empty() {
            return Ok(());
        }
        let elements = mapping::elements(mappings);
        let added = self.apply("map ports", &rules::add(&self.layout, &elements));
        let Err(TableError::Refused { .. }) = &added else {
            return added;
        };
        // Why it was refused: nft names neither mapping.
        let present = self.list()?;
        let conflict = mappings.iter().find_map(|wanted| {
            let other = present
                .iter()
                .find(|present| present.has_same_key(wanted) && *present != wanted)?;
            Some((*wanted, *other))
        });
        match conflict {
            Some((wanted, present)) => Err(TableError::Taken {
                table: self.layout.table(),
                wanted,
                present,
            }),
            None => added,
        }
    }

    /// Removes mappings. An absent one is gone already; one whose port has another target
    /// by now stays.
    ///
    /// # Errors
    /// nft is missing or refused.
    pub fn remove(&self, mappings: &[Mapping]) -> Result<(), TableError> {
        const OPERATION: &str = "remove ports";
        if mappings.is_empty() {
            return Ok(());
        }
        let elements = mapping::elements(mappings);
        let removed = self.apply(OPERATION, &rules::remove(&self.layout, &elements));
        let Err(TableError::Refused { .. }) = removed else {
            return removed;
        };
        // A port has another target, or the table is not there.
        let present = self.elements()?.unwrap_or_default();
        let rest: Vec<Element> = elements
            .into_iter()
            .filter(|element| present.binary_search(element).is_ok())
            .collect();
        if rest.is_empty() {
            return Ok(());
        }
        self.apply(OPERATION, &rules::remove_present(&self.layout, &rest))
    }

    /// The mappings that are there, sorted; none where the table is not there.
    ///
    /// # Errors
    /// nft is missing or refused, or somebody added elements that are no mappings.
    pub fn list(&self) -> Result<Vec<Mapping>, TableError> {
        Ok(self.look()?.unwrap_or_default())
    }

    /// As [`Self::list`]; `None` where the table is not there.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn look(&self) -> Result<Option<Vec<Mapping>>, TableError> {
        let Some(elements) = self.elements()? else {
            return Ok(None);
        };
        let elements = elements.into_iter();
        let mut mappings: Vec<Mapping> = elements.map(|element| element.mapping).collect();
        mappings.sort_unstable();
        mappings.dedup();
        Ok(Some(mappings))
    }

    /// Removes the table with its rules and mappings. An absent table is gone already.
    ///
    /// # Errors
    /// nft is missing or refused.
    pub fn delete(&self) -> Result<(), TableError> {
        self.apply("remove all", &rules::delete(&self.layout))
    }

    /// The elements of the maps, sorted; `None` where the table is not there.
    fn elements(&self) -> Result<Option<Vec<Element>>, TableError> {
        const OPERATION: &str = "list ports";
        let table = self.layout.table();
        match nft::describe(&["list", "table", "inet", &table]) {
            Ok(Answer::Done(text)) => listing::elements(&self.layout, &text)
                .map(Some)
                .map_err(|reason| TableError::Malformed { table, reason }),
            Ok(Answer::Refused(reason)) if reason.contains(ABSENT) => Ok(None),
            Ok(Answer::Refused(reason)) => Err(self.refused(OPERATION, reason)),
            Err(source) => Err(self.failed(OPERATION, source)),
        }
    }

    fn apply(&self, operation: &'static str, statements: &str) -> Result<(), TableError> {
        match nft::apply(statements) {
            Ok(Answer::Done(_)) => Ok(()),
            Ok(Answer::Refused(reason)) => Err(self.refused(operation, reason)),
            Err(source) => Err(self.failed(operation, source)),
        }
    }

    fn refused(&self, operation: &'static str, reason: String) -> TableError {
        let table = self.layout.table();
        TableError::Refused {
            table,
            operation,
            reason,
        }
    }

    fn failed(&self, operation: &'static str, source: NftError) -> TableError {
        let table = self.layout.table();
        TableError::Nft {
            table,
            operation,
            source,
        }
    }
}
